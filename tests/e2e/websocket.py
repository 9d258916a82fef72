"""tests/e2e/websocket.py: a raw WebSocket client of a sandbox's port: what it sends is masked, what it hears is read frame by frame."""
import base64
import os
import socket
import struct


class WebSocket:
    def __init__(self, sandbox, path, **headers):
        self.socket = socket.create_connection(sandbox.api.address, timeout=30)
        lines = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                 "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **sandbox.headers(), **headers}
        self.socket.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v)
                             + "\r\n").encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def send(self, data, opcode=1):
        size = struct.pack(">BB", 0x80 | opcode, 0x80 | len(data))
        if len(data) > 125:
            raise ValueError("only short messages are made here")
        self.socket.sendall(size + b"\1\2\3\4" + bytes(b ^ (i % 4 + 1) for i, b in enumerate(data)))

    def hear(self):
        """(opcode, payload)"""
        head = self.file.read(2)
        if len(head) < 2:
            raise ConnectionError("the socket ended without a close frame")
        first, size = head
        if size >= 126:
            size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
        return first & 15, self.file.read(size)

    def until(self, wanted, opcode):
        seen = b""
        while wanted not in seen:
            kind, data = self.hear()
            if kind == 9:
                continue
            if kind == 8:
                raise AssertionError(f"closed after {seen!r}: {data!r}")
            seen += data if kind == opcode else b""
        return seen

    def close(self):
        self.file.close()
        self.socket.close()
