"""The refusal that handlers may raise too."""


class PolicyDenied(Exception):
    """Answered with `status` and a body of error, type, code, endpoint and the extra fields."""

    def __init__(self, code, message, *, status=403, endpoint="", error_type="PolicyDenied", **extra):
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.endpoint = endpoint
        self.error_type = error_type
        self.extra = extra

    def to_body(self):
        body = {"error": self.message, "type": self.error_type, "code": self.code}
        if self.endpoint:
            body["endpoint"] = self.endpoint
        body.update(self.extra)
        return body
