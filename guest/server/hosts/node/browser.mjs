// The host of the browser group: one Chromium, a context for each caller, all its connections through a proxy that asks
// the server about every address (security S12, S19). Commands take the checked bodies of /browser/*.
import dns from 'node:dns/promises';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const IDLE_MS = 30 * 60_000, SWEEP_MS = 60_000, LOGS_MAX = 1000, LOG_TEXT_MAX = 65536, CONNECT_MS = 20_000, LINKS_MAX = 512;
const config = JSON.parse(process.argv[2]);

class Missing extends Error {
    constructor(message) {
        super(message);
        Object.assign(this, { name: 'RuntimeError', status: 503 });
    }
}
class Refused extends Error {
    constructor({ message, type, code, status }) {
        super(message);
        Object.assign(this, { name: type ?? 'PolicyDenied', code, status: status ?? 403 });
    }
}

// ---- the proxy: what is connected to is an address that the server has allowed

async function judge(what, text) {
    const answer = await ask(what, { path: text });
    if (!answer.ok)
        throw new Refused(answer);
}

/** Every address of the name is allowed, or none is used. */
async function allowedAddress(host) {
    const bare = host.replace(/^\[|\]$/g, '');
    const found = net.isIP(bare) ? [{ address: bare }] : await dns.lookup(bare, { all: true, verbatim: true });
    for (const { address } of found)
        await judge('address', address);
    return found[0].address;
}

async function connectTo(origin, host, port) {
    await judge('origin', origin);
    await judge('port', String(port));
    const socket = net.connect({ host: await allowedAddress(host), port });
    return new Promise((resolve, reject) => {
        socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error('no connection in time')));
        socket.once('error', reject);
        socket.once('connect', () => {
            socket.setTimeout(0);
            resolve(socket);
        });
    });
}

function tunnel(request, client, head) {
    client.on('error', () => {});
    const found = /^(\[[0-9a-f:.]+\]|[^:]+):(\d{1,5})$/i.exec(request.url);
    const port = Number(found?.[2]);
    if (!found || port < 1 || port > 65535) {
        client.end('HTTP/1.1 400 Bad Request\r\n\r\n');
        return;
    }
    connectTo(`https://${found[1]}:${port}/`, found[1], port).then(server => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n');
        server.write(head);
        server.pipe(client).pipe(server);
        server.on('error', () => client.destroy());
        server.on('close', () => client.destroy());
        client.on('close', () => server.destroy());
    }, e => client.end(`HTTP/1.1 ${e instanceof Refused ? 403 : 502} ${e instanceof Refused ? 'Forbidden' : 'Bad Gateway'}\r\n\r\n`));
}

async function forward(request, response) {
    const url = new URL(request.url); // absolute-form only: this is a proxy
    const { 'proxy-connection': _, 'proxy-authorization': __, ...headers } = request.headers;
    await judge('url', url.href);
    await judge('port', url.port || '80');
    const host = await allowedAddress(url.hostname);
    const onward = http.request({ host, port: url.port || 80, method: request.method, path: url.pathname + url.search, headers,
        setHost: false, timeout: CONNECT_MS });
    onward.on('response', answer => {
        response.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
    });
    onward.on('timeout', () => onward.destroy(new Error('no answer in time')));
    onward.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
    response.on('close', () => onward.destroy());
    request.pipe(onward);
}

async function startProxy() {
    const proxy = http.createServer((request, response) => {
        // Refused: no answer at all. One of the proxy's own would be read as one of the page's.
        forward(request, response).catch(e => response.headersSent || e instanceof Refused ? response.destroy() : response.writeHead(502).end());
    });
    proxy.maxConnections = LINKS_MAX;
    proxy.on('connect', tunnel);
    proxy.on('clientError', (_e, socket) => socket.destroy());
    await new Promise((resolve, reject) => proxy.once('error', reject).listen(0, '127.0.0.1', resolve));
    proxy.unref();
    return proxy.address().port;
}

// ---- what is installed

const require = createRequire('/usr/lib/');

function library() {
    const folders = [...(process.env.NODE_PATH ?? '').split(':').filter(Boolean), '/usr/lib/node_modules', '/usr/local/lib/node_modules'];
    for (const name of ['playwright-core', 'puppeteer-core'])
        for (const folder of folders)
            if (fs.existsSync(path.join(folder, name, 'package.json'))) {
                const found = require(path.join(folder, name));
                return { isPlaywright: name === 'playwright-core', api: found.chromium ?? found.default ?? found };
            }
    throw new Missing(`no library drives the browser: npm install -g playwright-core (looked in ${folders.join(', ')})`);
}

function chromium({ isPlaywright, api }) {
    const given = process.env.CHROMIUM_BIN;
    const folders = (process.env.PATH ?? '').split(':').filter(Boolean);
    const named = ['chromium', 'chromium-browser', 'google-chrome'].flatMap(name => folders.map(folder => path.join(folder, name)));
    let own = '';
    try {
        own = isPlaywright ? api.executablePath() : '';
    } catch {
        // it has none of its own
    }
    const isProgram = file => {
        try {
            fs.accessSync(file, fs.constants.X_OK);
            return fs.statSync(file).isFile();
        } catch {
            return false;
        }
    };
    const found = (given ? [given] : [...named, own]).find(file => file && isProgram(file));
    if (!found)
        throw new Missing(given ? `CHROMIUM_BIN=${given} is no program` : 'Chromium is not installed: apt-get install chromium');
    return found;
}

// Chromium's own sandbox needs user namespaces. Where a sandbox of ours forbids them, that one stands around all of it.
function sandboxArguments() {
    if (config.in_sandbox)
        return ['--no-sandbox'];
    if (process.getuid() === 0)
        throw new Missing('Chromium does not run as root with its sandbox: start the server as an ordinary user');
    return [];
}

// ---- the browser

let browser = null, starting = null, proxyPort = 0, den = null;

/** With `confine`: two folders, one with the program that holds Chromium to what it may reach and becomes it, and one where
 * Chromium writes, which is not the same: nobody else's turn at the first. */
function makeDen() {
    if (den || !config.wall)
        return den;
    const top = fs.mkdtempSync(path.join(config.home, 'host-'));
    den = { top, program: path.join(top, 'abx-chromium'), folder: path.join(top, 'run') };
    fs.symlinkSync(config.wall, den.program);
    fs.mkdirSync(den.folder, 0o700);
    process.env.TMPDIR = den.folder; // the library makes profiles there
    return den;
}

function leaveDen() {
    if (den)
        fs.rmSync(den.top, { recursive: true, force: true });
}

/** What is started as Chromium, and its environment. */
function program(executablePath) {
    if (!makeDen())
        return { executablePath };
    const { XDG_CONFIG_HOME: _, XDG_CACHE_HOME: __, XDG_DATA_HOME: ___, XDG_RUNTIME_DIR: ____, ...env } = process.env;
    return { executablePath: den.program, env: { ...env, HOME: den.folder, TMPDIR: den.folder, ABX_CHROMIUM_PROGRAM: executablePath,
        ABX_CHROMIUM_FOLDER: den.folder, ABX_CHROMIUM_PORT: String(proxyPort) } };
}
const seats = new Map(); // identity -> seat

async function launch() {
    const lib = library(), executablePath = chromium(lib);
    const args = [...sandboxArguments(), '--proxy-bypass-list=<-loopback>', '--disable-quic', '--disable-background-networking',
        '--force-webrtc-ip-handling-policy=disable_non_proxied_udp', '--webrtc-ip-handling-policy=disable_non_proxied_udp',
        '--disable-dev-shm-usage', '--no-first-run', '--dns-prefetch-disable'];
    proxyPort ||= await startProxy();
    const proxy = `http://127.0.0.1:${proxyPort}`;
    const options = { ...program(executablePath), headless: true, timeout: 30_000, handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false };
    let started;
    try {
        started = lib.isPlaywright
            ? await lib.api.launch({ ...options, chromiumSandbox: !config.in_sandbox, proxy: { server: proxy, bypass: '<-loopback>' }, args })
            : await lib.api.launch({ ...options, pipe: true, args: [...args, `--proxy-server=${proxy}`] });
    } catch (e) {
        const said = /No usable sandbox[^\n]*|Failed to move to new namespace[^\n]*/.exec(e.message) ?? /(?:\[err\]|Failed to launch[^\n]*\n)\s*([^\n]+)/.exec(e.message);
        const why = (said?.[1] ?? said?.[0])?.slice(0, 300);
        throw new Missing(`Chromium does not start: ${why ?? e.message.split('\n')[0]}`);
    }
    started.on('disconnected', () => {
        if (browser?.it === started) {
            browser = null;
            seats.clear();
        }
    });
    return { it: started, isPlaywright: lib.isPlaywright };
}

async function running() {
    if (browser?.it.isConnected?.() ?? browser?.it.connected)
        return browser;
    starting ??= launch().finally(() => { starting = null; });
    return browser = await starting;
}

// Every request of a page, redirects too, is asked for; what no page session sees is held by the proxy.
async function intercept(session) {
    await session.send('Fetch.enable', { patterns: [{ urlPattern: '*' }] });
    session.on('Fetch.requestPaused', async ({ requestId, request }) => {
        try {
            if (/^https?:/i.test(request.url))
                await judge('url', request.url);
            else if (!/^(?:data|blob|about):/i.test(request.url))
                throw new Refused({ message: 'only http and https pages can be opened' });
            await session.send('Fetch.continueRequest', { requestId });
        } catch {
            await session.send('Fetch.failRequest', { requestId, errorReason: 'AccessDenied' }).catch(() => {});
        }
    });
}

function note(seat, type, text) {
    if (seat.logs.length === LOGS_MAX)
        seat.logs.shift();
    seat.logs.push({ type, text: String(text).slice(0, LOG_TEXT_MAX), timestamp: Date.now() / 1000 });
}

async function openSeat(seat) {
    const { it, isPlaywright } = await running();
    if (seat.page && !seat.page.isClosed())
        return seat.page;
    seat.isPlaywright = isPlaywright;
    seat.context ??= isPlaywright ? await it.newContext({ serviceWorkers: 'block' }) : await it.createBrowserContext();
    seat.page = await seat.context.newPage();
    seat.page.on('console', m => note(seat, m.type(), m.text()));
    seat.page.on('pageerror', e => note(seat, 'error', e.message ?? e));
    seat.page.on('dialog', d => d.dismiss().catch(() => {}));
    await intercept(isPlaywright ? await seat.context.newCDPSession(seat.page) : await seat.page.createCDPSession());
    return seat.page;
}

function seatOf(identity) {
    const seat = seats.get(identity) ?? { logs: [], tail: Promise.resolve(), used: 0 };
    seats.set(identity, seat);
    return seat;
}

/** Calls of one caller wait for each other. */
function queued(work) {
    return (args, ctx) => {
        const seat = seatOf(ctx.identity.id);
        const mine = seat.tail.then(async () => {
            if (ctx.signal.aborted)
                throw new Error('cancelled');
            seat.used = Date.now();
            try {
                return await work(await openSeat(seat), args, seat);
            } finally {
                seat.used = Date.now();
            }
        });
        seat.tail = mine.catch(() => {});
        return mine;
    };
}

async function closeIdle() {
    for (const [identity, seat] of seats)
        if (seat.context && Date.now() - seat.used > IDLE_MS) {
            seats.delete(identity);
            await seat.context.close().catch(() => {});
        }
}

// ---- the eight endpoints

function sizeOf(image, isPng) {
    if (isPng)
        return { width: image.readUInt32BE(16), height: image.readUInt32BE(20) };
    for (let at = 2; at + 9 < image.length; at += 2 + image.readUInt16BE(at + 2)) // segments of a JPEG
        if (image[at + 1] >= 0xc0 && image[at + 1] <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(image[at + 1]))
            return { width: image.readUInt16BE(at + 7), height: image.readUInt16BE(at + 5) };
    return { width: 0, height: 0 };
}

function within(promise, ms) {
    let timer;
    const late = new Promise((_resolve, reject) => {
        timer = setTimeout(() => {
            const e = new Error(`not done in ${ms} ms`);
            e.name = 'TimeoutError';
            reject(e);
        }, ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Before the page is opened every address of its name is looked at; a name that nobody knows passes, to fail there. */
async function checkAddresses(url) {
    try {
        await allowedAddress(new URL(url).hostname);
    } catch (e) {
        if (e instanceof Refused)
            throw e;
    }
}

/** The page of an error comes late and would cut short what is opened next: the caller gets a fresh page then. */
async function replaced(seat, e) {
    await within(seat.page.close(), 5000).catch(() => {});
    seat.page = null;
    throw e;
}

async function navigate(page, { url, wait_until: until, timeout }, seat) {
    await checkAddresses(url);
    const waits = seat.isPlaywright ? until : { networkidle: 'networkidle0', commit: 'domcontentloaded' }[until] ?? until;
    const answer = await page.goto(url, { waitUntil: waits, timeout }).catch(e => replaced(seat, e));
    return { url: page.url(), title: await page.title(), status: answer?.status() ?? 0 };
}

async function screenshot(page, { selector, full_page: fullPage, format }) {
    const target = selector ? await page.$(selector) : page;
    if (target === null)
        throw Object.assign(new Error(`no element matches '${selector}'`), { name: 'ValueError', status: 404 });
    const image = Buffer.from(await target.screenshot({ type: format, ...!selector && { fullPage } }));
    return { image_base64: image.toString('base64'), ...sizeOf(image, format === 'png') };
}

async function content(page, { type }) {
    const text = type === 'text' ? await page.evaluate(() => document.body?.innerText ?? '') : await page.content();
    return { content: text, url: page.url(), title: await page.title() };
}

async function click(page, { selector, timeout }, seat) {
    if (seat.isPlaywright)
        await page.click(selector, { timeout });
    else
        await (await page.waitForSelector(selector, { timeout, visible: true })).click();
    return { clicked: true, selector };
}

async function type(page, { selector, text, delay, clear }, seat) {
    const field = seat.isPlaywright ? page.locator(selector).first() : await page.waitForSelector(selector, { timeout: 5000 });
    if (clear && seat.isPlaywright)
        await field.fill('', { timeout: 5000 });
    else if (clear)
        await field.evaluate(e => { e.value = ''; });
    await (seat.isPlaywright ? field.pressSequentially(text, { delay, timeout: 0 }) : field.type(text, { delay }));
    return { typed: true, selector, text };
}

async function evaluate(page, { script, timeout }) {
    const result = await within(page.evaluate(script), timeout);
    return { result: result === undefined ? null : result };
}

async function pdf(page, { format, landscape }) {
    const bytes = Buffer.from(await page.pdf({ format, landscape }));
    return { pdf_base64: bytes.toString('base64'), pages: (bytes.toString('latin1').match(/\/Type\s*\/Page(?![a-zA-Z])/g) ?? []).length };
}

for (const work of [navigate, screenshot, content, click, type, evaluate, pdf])
    command(work.name, queued(work));
command('console', (_args, ctx) => ({ logs: seatOf(ctx.identity.id).logs.splice(0) }));

ownStatus = e => e?.status ?? 500;
ownCode = e => (e instanceof Refused ? { code: e.code } : {});
leaving = async () => {
    await browser?.it.close().catch(() => {});
    leaveDen();
};
setInterval(() => closeIdle(), SWEEP_MS).unref();
openLink();
sayHello('browser');
