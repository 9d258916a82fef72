// The Node side of the command host protocol, version 1 (command-hosts.md 3, 4). Read from standard input; files.mjs or
// browser.mjs follows in the same text and starts it. Everything runs on the event loop: a handler that never awaits
// stops the others, and is ended with the whole process when its time is over.
import { Buffer } from 'node:buffer';
import net from 'node:net';
import process from 'node:process';

const VERSION = 1, LINE_MAX = 64 << 20, LOG_MAX = 16384, CALLS_MAX = 128, ASKED_MAX = 1024;
const JSON_TYPE = 'application/json; charset=utf-8', BYTES_TYPE = 'application/octet-stream', EVENTS_TYPE = 'text/event-stream';
const TYPES = ['boolean', 'float', 'integer', 'string', 'string_array'];
const PART = /\{([\p{L}\p{N}_]+)\}/gu, REGEX = /[()[\]*+?|\\^$]/, HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const BAD_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

class PolicyDenied extends Error {
    /** Thrown by a route: its answer. `more` may hold status, endpoint, type, retry_after and members of the body. */
    constructor(code, message, more = {}) {
        super(message);
        this.name = 'PolicyDenied';
        const { status = 403, endpoint = '', type = 'PolicyDenied', ...extra } = more;
        Object.assign(this, { code, status, endpoint, type, extra });
    }
}

class Cancelled extends Error {}

class Sse {
    constructor(events, { status = 200, headers = {} } = {}) {
        Object.assign(this, { events, status, headers });
    }
}

// ---- the socket

const link = { socket: null, calls: new Map(), asked: new Map(), question: 0, rest: [], held: 0, onReject: null };

function sendLine(text) {
    if (Buffer.byteLength(text) >= LINE_MAX)
        throw new RangeError(`the answer is larger than ${LINE_MAX} bytes`);
    return link.socket.write(text + '\n');
}

function send(message) {
    return sendLine(JSON.stringify(message));
}

function log(text) {
    send({ op: 'log', level: 'error', message: String(text).slice(0, LOG_MAX) });
}

function ask(what, fields) {
    if (link.asked.size >= ASKED_MAX)
        return Promise.reject(new Error('too many questions wait for the server'));
    const q = ++link.question;
    return new Promise(resolve => {
        link.asked.set(q, resolve);
        send({ op: 'ask', q, what, ...fields });
    });
}

function onData(piece) {
    let from = 0;
    for (let end; (end = piece.indexOf(10, from)) >= 0; from = end + 1) {
        link.rest.push(piece.subarray(from, end));
        const line = Buffer.concat(link.rest).toString();
        link.rest = [];
        link.held = 0;
        take(line);
    }
    if (from < piece.length) {
        link.rest.push(piece.subarray(from));
        link.held += piece.length - from;
    }
    if (link.held > LINE_MAX)
        leave(1);
}

function leave(code) {
    link.socket.end(() => process.exit(code));
    setTimeout(() => process.exit(code), 1000);
}

// ---- what user code registers

const registry = { commands: new Map(), routes: [], notices: [], serve: null, isFrozen: false };

function mustBeOpen(what) {
    if (registry.isFrozen)
        throw new Error(`${what} comes too late: the server runs`);
}

function textOf(value) {
    return value === undefined || value === null ? null : typeof value === 'string' ? value : JSON.stringify(value);
}

function argument(name, given) {
    const row = typeof given === 'string' ? { type: given } : given ?? {};
    const { type = 'string', required = false, description = '' } = row;
    if (typeof name !== 'string' || !TYPES.includes(type))
        throw new TypeError(`argument ${name}: unknown type ${type}; one of ${TYPES.join(', ')}`);
    return { name, type, required: Boolean(required), default: textOf(row.default), description };
}

function argumentsOf(args = []) {
    return Array.isArray(args) ? args.map(row => argument(row?.name, row))
        : Object.entries(args).map(([name, row]) => argument(name, row));
}

function command(name, options, handler) {
    const [o, fn] = typeof options === 'function' ? [{}, options] : [options ?? {}, handler];
    mustBeOpen(`command ${name}`);
    if (typeof name !== 'string' || typeof fn !== 'function')
        throw new TypeError('command(name, [options,] handler)');
    if (registry.commands.has(name))
        registry.notices.push(`command ${name} is registered twice: the later one runs`);
    const row = { name, description: o.description ?? '', hidden: Boolean(o.hidden), scopes: [...o.scopes ?? []],
        timeout_s: o.timeout ?? null, args: argumentsOf(o.args) };
    registry.commands.set(name, { row, fn });
    return fn;
}

function patternOf(path) {
    let source = '', at = 0;
    for (const part of path.matchAll(PART)) {
        source += path.slice(at, part.index) + `(?<${part[1]}>[^/]+)`;
        at = part.index + part[0].length;
    }
    return new RegExp(`^(?:${source + path.slice(at)})$`, 'su');
}

function route(method, path, options, handler) {
    const [o, fn] = typeof options === 'function' ? [{}, options] : [options ?? {}, handler];
    mustBeOpen(`route ${method} ${path}`);
    if (typeof method !== 'string' || typeof path !== 'string' || typeof fn !== 'function')
        throw new TypeError('route(method, path, [options,] handler)');
    const regex = REGEX.test(path.replace(PART, ''));
    const row = { n: registry.routes.length, method: method.toUpperCase(), path, regex, group: o.group ?? 'commands',
        auth_required: o.authRequired ?? o.auth_required ?? true, streaming: Boolean(o.streaming), name: o.name ?? '',
        scopes: [...o.scopes ?? []], summary: o.summary ?? '' };
    registry.routes.push({ row, fn, pattern: regex ? patternOf(path) : null });
    return fn;
}

function sayHello(name) {
    registry.isFrozen = true;
    send({ op: 'hello', protocol: VERSION, name, runtime: `node ${process.versions.node}`,
        commands: [...registry.commands.values()].map(c => c.row), routes: registry.routes.map(r => r.row), groups: {},
        builtins: true, policy: null, serve: registry.serve, notices: registry.notices });
}

let helloName = 'node';
/** Ends registration; where the server is to listen when no option says so. Settles never: the server stops the host. */
function start({ port = null, host = null } = {}) {
    mustBeOpen('start()');
    registry.serve = { ...port !== null && { port }, ...host !== null && { host } };
    sayHello(helloName);
    return new Promise(() => {});
}

// ---- what a handler gets

function contextOf(message, call) {
    const { endpoint = '', identity = { id: '', scopes: [] }, rule = {} } = message.ctx ?? {};
    const held = scope => scope === 'core:read' || identity.scopes.some(s => s === '*' || s === scope ||
        s.endsWith(':*') && !s.slice(0, -2).includes(':') && s.slice(0, -2) === scope.split(':', 1)[0]);
    return {
        endpoint, identity, rule, signal: call.stop.signal,
        limit: (name, otherwise) => rule.limits?.[name] ?? otherwise,
        param: (name, otherwise) => rule.params?.[name] ?? otherwise,
        requireScope(scope) {
            if (!held(scope))
                throw new PolicyDenied('missing_scope', `Missing required scope '${scope}'`, { endpoint, scope });
        },
        /** The path as the policy of the endpoint allows it; PolicyDenied otherwise. */
        async resolvePath(path, { op = 'read', field = '' } = {}) {
            const a = await ask('path', { id: call.id, path, access: op, field });
            if (!a.ok)
                throw a.code ? new PolicyDenied(a.code, a.message, { status: a.status, type: a.type, endpoint }) : new Error(a.message);
            return a.value;
        },
    };
}

// ---- one call

let ownStatus = () => 500, ownCode = () => ({}); // browser.mjs knows more
let leaving = async () => {}; // what is to be ended before this process

class Call {
    constructor(id) {
        this.id = id;
        this.stop = new AbortController();
        this.isOver = this.hasHead = false;
        this.gate = null; // what a paused stream waits for
    }

    finish(text) {
        if (this.isOver)
            return;
        sendLine(text); // may throw: then there is no answer yet
        this.isOver = true;
        link.calls.delete(this.id);
    }

    error(status, type, message, more = {}) {
        this.finish(JSON.stringify({ op: 'error', id: this.id, status, type, message, ...more }));
    }

    fail(e) {
        const isError = e instanceof Error;
        if (this.isOver)
            return;
        if (!this.stop.signal.aborted && ownStatus(e) === 500)
            log(isError ? e.stack ?? e.message : `thrown: ${e}`);
        this.error(ownStatus(e), isError ? e.name : 'Error', isError ? e.message : String(e), ownCode(e));
    }

    /** The caller is gone or the time is over: the answer is given now, what the handler still does is not looked at. */
    cancel() {
        this.stop.abort();
        this.gate?.open();
        this.error(500, 'TimeoutError', 'cancelled');
    }

    async mayGoOn() {
        if (this.gate)
            await this.gate.opened;
        if (link.socket.writableNeedDrain)
            await new Promise(resolve => link.socket.once('drain', resolve));
        if (this.isOver)
            throw new Cancelled('cancelled');
    }

    pause() {
        if (this.gate || this.isOver)
            return;
        this.gate = {};
        this.gate.opened = new Promise(resolve => { this.gate.open = resolve; });
    }

    resume() {
        this.gate?.open();
        this.gate = null;
    }
}

function encoded(value) {
    const text = JSON.stringify(value === undefined ? null : value);
    return text === undefined ? 'null' : text; // a function, a symbol
}

function iteratorOf(value) {
    if (typeof value?.[Symbol.asyncIterator] === 'function')
        return value[Symbol.asyncIterator]();
    return typeof value?.next === 'function' && typeof value[Symbol.iterator] === 'function' ? value[Symbol.iterator]() : null;
}

async function collected(call, items) {
    const out = [];
    for (let step; !(step = await items.next()).done;) {
        out.push(step.value);
        if (call.isOver) {
            await items.return?.();
            throw new Cancelled('cancelled');
        }
    }
    return out;
}

function frameOf(call, item) {
    if (typeof item === 'string')
        return { op: 'chunk', id: call.id, data: item };
    if (item instanceof Uint8Array)
        return { op: 'chunk', id: call.id, base64: Buffer.from(item.buffer, item.byteOffset, item.length).toString('base64') };
    return { op: 'chunk', id: call.id, data: `data: ${encoded(item)}\n\n` };
}

// The head goes out with the first item: a failure before it is an ordinary answer.
async function stream(call, items, status, headers) {
    const head = () => send({ op: 'head', id: call.id, status: checkedStatus(status), headers: checkedHeaders(headers, EVENTS_TYPE) });
    try {
        for (let step; !(step = await items.next()).done;) {
            await call.mayGoOn();
            if (!call.hasHead)
                head();
            call.hasHead = true;
            send(frameOf(call, step.value));
        }
        if (call.isOver)
            return;
        if (!call.hasHead)
            head();
        call.finish(JSON.stringify({ op: 'end', id: call.id }));
    } finally {
        await items.return?.();
    }
}

function checkedStatus(status) {
    if (!Number.isInteger(status) || status < 200 || status > 999)
        throw new RangeError(`${status} is no status of an answer`);
    return status;
}

function checkedHeaders(given, contentType) {
    const out = {};
    for (const [name, value] of Object.entries(given ?? {})) {
        if (!HEADER_NAME.test(name) || BAD_VALUE.test(String(value)))
            throw new TypeError(`header ${JSON.stringify(name)} is not well-formed`);
        out[name] = String(value);
    }
    if (contentType && !Object.keys(out).some(name => name.toLowerCase() === 'content-type'))
        out['Content-Type'] = contentType;
    return out;
}

// Numbers that JSON lacks come as their text.
const UNWRITTEN = { nan: NaN, inf: Infinity, '-inf': -Infinity };

function numbered(row, args) {
    for (const { name, type } of row.args)
        if (type === 'float' && Object.hasOwn(args, name) && Object.hasOwn(UNWRITTEN, args[name]))
            args[name] = UNWRITTEN[args[name]];
    return args;
}

async function runCommand(call, entry, message) {
    const value = await entry.fn(numbered(entry.row, message.args ?? {}), contextOf(message, call));
    const items = iteratorOf(value);
    if (items === null)
        call.finish(`{"op":"result","id":${call.id},"value":${encoded(value)}}`);
    else if (message.stream)
        await stream(call, { next: async () => framed(await items.next()), return: () => items.return?.() }, 200, {});
    else
        call.finish(`{"op":"result","id":${call.id},"value":${encoded(await collected(call, items))}}`);
}

function framed(step) {
    return step.done ? step : { done: false, value: `data: ${encoded(step.value)}\n\n` };
}

// Bytes are sent as they are; null: the body is JSON.
function bytesOf(body) {
    if (ArrayBuffer.isView(body))
        return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    return body instanceof ArrayBuffer ? Buffer.from(body) : null;
}

function respond(call, answer) {
    const { status = 200, body = {}, headers = {} } = answer;
    const bare = status === 204 || status === 304, bytes = bytesOf(body);
    const head = JSON.stringify(checkedHeaders(headers, bare ? null : bytes ? BYTES_TYPE : JSON_TYPE));
    const tail = bare ? '' : bytes ? `,"base64":"${bytes.toString('base64')}"` : `,"body":${encoded(body)}`;
    call.finish(`{"op":"response","id":${call.id},"status":${checkedStatus(status)},"headers":${head}${tail}}`);
}

function deny(call, e, endpoint) {
    const headers = e.extra.retry_after === undefined ? {} : { 'Retry-After': e.extra.retry_after };
    respond(call, { status: e.status, headers,
        body: { error: e.message, type: e.type, code: e.code, endpoint: e.endpoint || endpoint, ...e.extra } });
}

async function runRoute(call, entry, message) {
    const context = contextOf(message, call);
    const { method, path, query = {}, headers = {}, path_params: pathParams = {}, body = null } = message;
    try {
        const answer = await entry.fn({ method, path, query, headers, pathParams, path_params: pathParams, body, context });
        const items = iteratorOf(answer instanceof Sse ? answer.events : answer);
        if (answer instanceof Sse && items === null && typeof answer.events?.[Symbol.iterator] === 'function')
            await stream(call, answer.events[Symbol.iterator](), answer.status, answer.headers);
        else if (items !== null)
            await stream(call, items, answer.status ?? 200, answer instanceof Sse ? answer.headers : {});
        else if (answer !== null && typeof answer === 'object' && !(answer instanceof Sse) && !Array.isArray(answer))
            respond(call, answer);
        else
            call.error(500, 'TypeError', `the handler of ${entry.row.method} ${entry.row.path} gave no {status, body, headers} and no stream`);
    } catch (e) {
        if (!(e instanceof PolicyDenied) || call.hasHead)
            throw e;
        deny(call, e, context.endpoint);
    }
}

// ---- messages

function onCall(message, entry, run) {
    if (link.calls.size >= CALLS_MAX || entry === undefined) {
        send({ op: 'error', id: message.id, status: entry ? 429 : 500, type: entry ? 'RateLimited' : 'RuntimeError',
            message: entry ? 'too many calls are running' : 'no such command or route in this host' });
        return;
    }
    const call = new Call(message.id);
    link.calls.set(call.id, call);
    run(call, entry, message).catch(e => {
        if (!(e instanceof Cancelled))
            call.fail(e);
    });
}

function onAsk(message) {
    const pattern = message.what === 'match' ? registry.routes[message.n]?.pattern : null;
    const found = pattern?.exec(message.path ?? '');
    send({ op: 'answer', q: message.q, ok: Boolean(pattern), value: found ? { ...found.groups } : null });
}

const handlers = {
    call: m => onCall(m, registry.commands.get(m.command), runCommand),
    request: m => onCall(m, registry.routes[m.n], runRoute),
    ask: onAsk,
    answer(m) {
        link.asked.get(m.q)?.(m);
        link.asked.delete(m.q);
    },
    cancel: m => link.calls.get(m.id)?.cancel(),
    pause: m => link.calls.get(m.id)?.pause(),
    resume: m => link.calls.get(m.id)?.resume(),
    reject(m) {
        process.stderr.write(`the server refused this file: ${m.error}\n`);
        leave(1);
    },
    shutdown() {
        for (const call of [...link.calls.values()])
            call.cancel();
        leaving().finally(() => leave(0));
    },
};

function take(line) {
    let message;
    try {
        message = JSON.parse(line);
    } catch {
        return;
    }
    handlers[message.op]?.(message);
}

/** Opens the socket that the server gave; nothing of it is left for user code and its children. */
function openLink() {
    const fd = Number(process.env.ABX_HOST_FD);
    delete process.env.ABX_HOST_FD;
    link.socket = new net.Socket({ fd, readable: true, writable: true });
    link.socket.on('data', onData);
    link.socket.on('end', () => process.exit(0));
    link.socket.on('error', () => process.exit(1));
    process.on('SIGINT', () => {}); // a terminal's Ctrl-C is the server's business
}
