/* The JavaScript and TypeScript kernel: cells run by V8's own REPL mode (persistent scope, let and const that may be
 * declared again, top-level await, completion value), reached through an inspector session of this process. The
 * supervisor is descriptor 3, one ASCII JSON object a line. Runs as a plain script, from `node -e`. */
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const net = require('node:net');
const util = require('node:util');
const vm = require('node:vm');
const url = require('node:url');
const childProcess = require('node:child_process');
const { createRequire, syncBuiltinESMExports } = require('node:module');
const { Session } = require('node:inspector');

const FD = 3, LINE_MAX = 48 << 20, CHUNK = 64 << 10;
let running = null; // {reject}: the cell that runs

// ---- the line

function ascii(text) {
  return text.replace(/[\u007f-\uffff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

/* Written at once: what a busy loop prints is streamed, and a slow reader stops it. The descriptor does not block,
 * since reading it must not; so a full one is waited for. */
function writeAll(data) {
  for (let at = 0; at < data.length;) {
    try {
      at += fs.writeSync(FD, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(writeAll.cell, 0, 0, 2);
    }
  }
}
writeAll.cell = new Int32Array(new SharedArrayBuffer(4));

function send(message) {
  let line = ascii(JSON.stringify(message)) + '\n';
  if (line.length > LINE_MAX)
    line = ascii(JSON.stringify({ type: 'error', name: 'OutputTooLarge', traceback: '',
      value: `an output of ${line.length} bytes: the limit is ${LINE_MAX}; write it to a file` })) + '\n';
  writeAll(Buffer.from(line, 'latin1'));
}

function streamTo(name) {
  const decoder = new (require('node:string_decoder').StringDecoder)('utf8');
  return function write(chunk, encoding, callback) {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
    const text = typeof chunk === 'string' && (!encoding || /^utf-?8$/i.test(encoding)) ? chunk
      : decoder.write(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
    for (let at = 0; at < text.length; at += CHUNK)
      send({ type: name, text: text.slice(at, at + CHUNK), timestamp: new Date().toISOString() });
    if (callback) process.nextTick(callback);
    return true;
  };
}

function sendError(error) {
  if (running && running.hasError) return;
  if (running) running.hasError = true;
  const isError = error instanceof Error || (error !== null && typeof error === 'object' && 'stack' in error);
  const name = isError ? String(error.name || 'Error') : 'Error';
  const value = isError ? String(error.message) : util.inspect(error);
  const stack = isError ? String(error.stack || `${name}: ${value}`) : `Uncaught ${value}`;
  send({ type: 'error', name, value, traceback: stack.replace(/\n {4}at Session\.post \(node:inspector[^]*$/, '') });
}

/* Returns once the supervisor has taken all that was sent: what a child now writes comes after it. Its answer is the
 * only thing that comes while a cell runs. */
function sync() {
  if (!running) return;
  send({ type: 'sync' });
  const byte = Buffer.alloc(1);
  for (;;) {
    try {
      if (fs.readSync(FD, byte) === 0 || byte[0] === 10) return;
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(writeAll.cell, 0, 0, 1);
    }
  }
}

function syncBefore(object, names) {
  for (const name of names) {
    const original = object[name];
    const replaced = function (...rest) { sync(); return original.apply(this, rest); };
    object[name] = Object.assign(Object.defineProperty(replaced, 'name', { value: name }), original);
  }
}

// ---- modules: the kernel has no file, so they are found from the current folder

function resolveModule(name) {
  if (/^(node|data|file|https?):/.test(name)) return name;
  if (/^\.{0,2}\//.test(name)) return url.pathToFileURL(path.resolve(name)).href;
  const found = createRequire(path.join(process.cwd(), 'cell.js')).resolve(name);
  return path.isAbsolute(found) ? url.pathToFileURL(found).href : found;
}

const importHere = (name, options) => import(resolveModule(String(name)), options);

/* Where code stands in a source: calls @onWord for each word outside of strings, comments, templates and regular
 * expressions with its place and the braces that are open. */
function walk(source, onWord) {
  const open = []; // of templates: how deep the braces were
  let depth = 0, at = 0, value = false; // value: the last token ends an operand, so a slash divides
  const skip = (pattern) => { pattern.lastIndex = at; const m = pattern.exec(source); at += m ? m[0].length : 1; };
  const template = () => {
    for (at++; at < source.length; at++) {
      if (source[at] === '\\') at++;
      else if (source[at] === '`') { at++; value = true; return; }
      else if (source.startsWith('${', at)) { open.push(depth); at += 2; value = false; return; }
    }
  };
  while (at < source.length) {
    const c = source[at];
    if (source.startsWith('//', at)) skip(/[^\n]*/y);
    else if (source.startsWith('/*', at)) skip(/\/\*[^]*?(\*\/|$)/y);
    else if (c === '"' || c === "'") { skip(c === '"' ? /"(\\[^]|[^"\\\n])*"?/y : /'(\\[^]|[^'\\\n])*'?/y); value = true; }
    else if (c === '`') template();
    else if (c === '}' && open.length && open[open.length - 1] === depth) { open.pop(); template(); }
    else if (c === '/' && !value) { skip(/\/(\\.|\[(\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/y); value = true; }
    else if (/[\p{ID_Start}$_]/u.test(c)) {
      const start = at;
      skip(/[\p{ID_Continue}$_\u200c\u200d]+/uy);
      const word = source.slice(start, at);
      value = !/^(return|typeof|case|in|of|delete|void|throw|new|do|else|await|yield|instanceof)$/.test(word);
      const next = onWord(word, start, depth);
      if (next > at) at = next;
    } else {
      if (c === '{' || c === '(' || c === '[') depth++;
      if (c === '}' || c === ')' || c === ']') depth--;
      if (!/\s/.test(c)) value = /[\w)\]}]/.test(c);
      at++;
    }
  }
}

const IMPORT = new RegExp([
  String.raw`import\s+(?:(?<all>[^'";()]+?)\s*from\s*)?(?<q>['"])(?<from>[^'"\n]+)\k<q>`,
  String.raw`(?:\s+with\s*(?<with>\{[^}]*\}))?\s*;?`].join(''), 'y');

/* "a, {b as c}" or "* as d" as declarations of the module's values. */
function declare(clause, module) {
  const parts = [];
  const braces = /\{([^}]*)\}/.exec(clause);
  const rest = braces ? clause.replace(braces[0], '') : clause;
  for (const name of rest.split(',').map((s) => s.trim()).filter(Boolean)) {
    const all = /^\*\s*as\s+(\S+)$/.exec(name);
    parts.push(all ? `${all[1]} = ${module}` : `${name} = ${module}.default`);
  }
  if (braces && braces[1].trim())
    parts.push(`{${braces[1].replace(/\s+as\s+/g, ': ')}} = ${module}`);
  return parts.length ? `const ${parts.join(', ')};` : '';
}

/* Static imports are declarations of modules only; in a cell they become awaited ones, on the same lines. */
function rewriteImports(source) {
  let out = '', done = 0, count = 0;
  walk(source, (word, start, depth) => {
    if (word !== 'import' || /\.\s*$/.test(source.slice(Math.max(0, start - 20), start))) return 0;
    if (/^\s*\(/.test(source.slice(start + 6, start + 200))) {
      out += source.slice(done, start) + '__abxImport';
      done = start + 6;
      return 0;
    }
    IMPORT.lastIndex = start;
    const found = depth === 0 && IMPORT.exec(source);
    if (!found) return 0;
    const { all, from } = found.groups;
    const module = `__abxModule${count++}`;
    const load = `await __abxImport(${JSON.stringify(from)}${found.groups.with ? `, {with: ${found.groups.with}}` : ''})`;
    const text = all ? `const ${module} = ${load}; ${declare(all, module)}` : `${load};`;
    out += source.slice(done, start) + text + '\n'.repeat(found[0].split('\n').length - 1);
    done = start + found[0].length;
    return done;
  });
  return out + source.slice(done);
}

// ---- TypeScript

function typeScriptUnavailable() {
  const error = new Error('types can not be stripped here: it takes Node.js 22.13 or the program esbuild ' +
    '(Debian: apt-get install esbuild; npm: npm install -g esbuild)');
  error.name = 'TypeScriptUnavailable';
  error.stack = `TypeScriptUnavailable: ${error.message}`;
  return error;
}

function stripByProgram(source) {
  const options = ['--loader=ts', '--log-level=error', '--color=false',
    '--tsconfig-raw={"compilerOptions":{"verbatimModuleSyntax":true,"preserveValueImports":true}}'];
  const done = childProcess.spawnSync('esbuild', options, { input: source, maxBuffer: 1 << 28, encoding: 'utf8' });
  if (done.error) throw done.error.code === 'ENOENT' ? typeScriptUnavailable() : done.error;
  if (done.status === 0) return done.stdout;
  const error = new SyntaxError(done.stderr.trim());
  error.stack = `SyntaxError: ${error.message}`;
  throw error;
}

function stripTypes(source) {
  const { stripTypeScriptTypes } = require('node:module');
  if (!stripTypeScriptTypes) return stripByProgram(source);
  return stripTypeScriptTypes(source, { mode: 'transform' });
}

// ---- a cell

const session = new Session();
session.connect();

function post(method, parameters) {
  let failure, answer; // a session of the own process answers before post() returns
  session.post(method, parameters, (error, result) => { failure = error; answer = result; });
  if (failure) throw new Error(failure.message);
  return answer;
}

function valueOf(remote) {
  if (!remote || remote.type === 'undefined') return undefined;
  if (remote.subtype === 'null') return null;
  if (remote.unserializableValue) return vm.runInThisContext(`(${remote.unserializableValue})`);
  if (remote.objectId === undefined) return remote.value;
  hidden.taken = undefined;
  post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration: 'function () { __abxTake(this); }' });
  post('Runtime.releaseObject', { objectId: remote.objectId });
  return hidden.taken;
}

const hidden = { taken: undefined, evaluate: null };
for (const [name, value] of [['__abxTake', (value) => { hidden.taken = value; }], ['__abxImport', importHere],
  ['__abxEvaluate', () => hidden.evaluate()]])
  Object.defineProperty(globalThis, name, { value });

/* In REPL mode the answer comes when the cell's own awaits are over. The script runs under vm, whose breakOnSigint stops a busy
 * loop by SIGINT and leaves the state as it is. */
function start(source, name) {
  return new Promise((resolve, reject) => {
    hidden.evaluate = () => session.post('Runtime.evaluate',
      { expression: `${source}\n//# sourceURL=${name}`, replMode: true, awaitPromise: true },
      (error, answer) => {
        if (error) reject(new Error(error.message));
        else if (answer.exceptionDetails) reject(valueOf(answer.exceptionDetails.exception));
        else resolve(answer.result);
      });
    try {
      vm.runInThisContext('__abxEvaluate()', { breakOnSigint: true, filename: 'kernel' });
    } catch (error) {
      reject(error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? interruption() : error);
    }
  });
}

function interruption() {
  const error = new Error('the cell was interrupted');
  error.name = 'KeyboardInterrupt';
  error.stack = `KeyboardInterrupt: ${error.message}`;
  return error;
}

const DISPLAY = Symbol.for('Jupyter.display');
const KEYS = { 'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg',
  'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex',
  'application/json': 'json', 'application/javascript': 'javascript' };

function stripQuotes(text) {
  return text.length > 1 && /^(['"])[^]*\1$/.test(text) ? text.slice(1, -1) : text;
}

/* The value as text, or what its [Symbol.for('Jupyter.display')]() gives: {MIME type: value}. */
async function sendResult(value, isMain) {
  const result = { type: 'result', extra: {}, is_main_result: isMain };
  const bundle = value !== null && typeof value === 'object' && typeof value[DISPLAY] === 'function'
    ? await value[DISPLAY]() : { 'text/plain': util.inspect(value) };
  for (const [mime, data] of Object.entries(bundle)) {
    if (mime in KEYS) result[KEYS[mime]] = mime === 'text/plain' ? stripQuotes(String(data)) : data;
    else result.extra[mime] = data;
  }
  send(result);
}

async function evaluate(cell) {
  let source = cell.code;
  if (cell.strip_types) source = stripTypes(source);
  const interrupted = new Promise((_, reject) => { running.reject = reject; });
  const work = (async () => {
    const remote = await start(rewriteImports(source), `cell-${cell.n}.js`);
    return await valueOf(remote);
  })();
  work.catch(() => {});
  const value = await Promise.race([work, interrupted]);
  if (value !== undefined) await Promise.race([sendResult(value, true), interrupted]);
}

function setVariables(variables) {
  for (const [name, value] of Object.entries(variables || {})) process.env[name] = value;
}

const sandbox = {};
function resetVariables(variables) {
  for (const name of Object.keys(variables || {}))
    if (name in sandbox) process.env[name] = sandbox[name];
    else delete process.env[name];
}

async function runCell(cell) {
  Object.assign(sandbox, cell.globals);
  setVariables(cell.globals);
  setVariables(cell.envs);
  running = { hasError: false };
  try {
    await evaluate(cell);
  } catch (error) {
    sendError(error);
  }
  running = null;
  resetVariables(cell.envs);
  send({ type: 'done' });
}

// ---- the life of the kernel

process.on('SIGINT', () => { if (running && running.reject) running.reject(interruption()); });
process.on('uncaughtException', (error) => {
  if (running) sendError(error);
  else process.stderr.write(`${util.inspect(error)}\n`);
});
process.on('unhandledRejection', (error) => {
  if (running) sendError(error);
});
process.stdout.write = streamTo('stdout');
process.stderr.write = streamTo('stderr');
syncBefore(childProcess, ['spawnSync', 'execSync', 'execFileSync']);
syncBefore(childProcess.ChildProcess.prototype, ['spawn']);
syncBuiltinESMExports();
const here = createRequire(path.join(process.cwd(), 'cell.js'));
for (const [name, value] of [['require', here], ['display', (value) => sendResult(value, false)]])
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });

let received = '';
const input = new net.Socket({ fd: FD, readable: true, writable: false });
input.setEncoding('utf8');
input.on('data', (text) => {
  received += text;
  for (let end; (end = received.indexOf('\n')) >= 0;) {
    const message = JSON.parse(received.slice(0, end));
    received = received.slice(end + 1);
    runCell(message);
  }
});
input.on('end', () => process.exit(0));
send({ type: 'ready' });
