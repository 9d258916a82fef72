// Loads the files that were given, in order, and answers their calls. `agent-sandbox/server` is this text's own API.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import module from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const API = Symbol.for('abx.server'), NAME = 'agent-sandbox/server';
const api = { command, route, sse: (events, options) => new Sse(events, options), PolicyDenied, start,
    stop: () => send({ op: 'stop' }), version: JSON.parse(process.argv[2]).version };
const VIRTUAL = 'data:text/javascript,' + encodeURIComponent(
    `const s=globalThis[Symbol.for('abx.server')];export const {${Object.keys(api).join(',')}}=s;export default s;`);

// ---- hooks: in this thread where Node has such, else in its thread for them; so nothing outside is used.

function resolveHook(name, virtual) {
    return (specifier, context, next) => specifier === name ? { url: virtual, shortCircuit: true } : next(specifier, context);
}

/** TypeScript as JavaScript, and the entries that are modules although nothing but their text says so. */
function loadHook(entries, tools) {
    const typescript = /\.[mc]?ts$/, syntax = /^\s*(?:import\s*[\w{*'"]|export\s*[\w{*])/m;
    const strip = file => {
        const source = tools.fs.readFileSync(file, 'utf8');
        if (tools.module.stripTypeScriptTypes)
            return tools.module.stripTypeScriptTypes(source);
        const done = tools.spawnSync('esbuild', ['--loader=ts', '--format=esm', `--sourcefile=${file}`],
            { input: source, encoding: 'utf8', maxBuffer: 64 << 20 });
        if (done.status === 0)
            return done.stdout;
        const e = new Error(done.error ? `${file}: TypeScript needs Node >= 22.13 or the program esbuild: apt-get install esbuild`
            : `${file}: ${done.stderr}`);
        e.name = done.error ? 'TypeScriptUnavailable' : 'SyntaxError';
        throw e;
    };
    return (url, context, next) => {
        if (!url.startsWith('file:'))
            return next(url, context);
        const file = tools.fileURLToPath(url);
        if (typescript.test(file) && !file.includes('/node_modules/'))
            return { format: 'module', source: strip(file), shortCircuit: true };
        if (entries.includes(url) && file.endsWith('.js')) {
            const source = tools.fs.readFileSync(file, 'utf8');
            if (syntax.test(source))
                return { format: 'module', source, shortCircuit: true };
        }
        return next(url, context);
    };
}

function hookSource(entries) {
    return `import fs from 'node:fs';import module from 'node:module';import {spawnSync} from 'node:child_process';
import {fileURLToPath} from 'node:url';
${resolveHook}
${loadHook}
export const resolve = resolveHook(${JSON.stringify(NAME)}, ${JSON.stringify(VIRTUAL)});
export const load = loadHook(${JSON.stringify(entries)}, {fs, module, spawnSync, fileURLToPath});`;
}

function installHooks(entries) {
    if (module.registerHooks) {
        module.registerHooks({ resolve: resolveHook(NAME, VIRTUAL), load: loadHook(entries, { fs, module, spawnSync, fileURLToPath }) });
        return;
    }
    if (!module.register)
        throw new Error(`node ${process.versions.node} is too old for command hosts: 18.19 or newer is needed`);
    module.register('data:text/javascript,' + encodeURIComponent(hookSource(entries)));
    const load = module._load; // require() does not go through those
    module._load = function (name, ...rest) {
        return name === NAME ? api : load.call(this, name, ...rest);
    };
}

async function main() {
    const config = JSON.parse(process.argv[2]);
    const files = [...new Set(config.files.map(file => fs.existsSync(file) ? fs.realpathSync(file) : path.resolve(file)))];
    const urls = files.map(file => pathToFileURL(file).href);
    helloName = config.files.join(', ');
    globalThis[API] = api;
    installHooks(urls);
    for (const [i, url] of urls.entries()) {
        process.argv.splice(1, process.argv.length, files[i]);
        await import(url);
        if (registry.isFrozen)
            return;
    }
    sayHello(helloName);
}

openLink();
main().catch(e => {
    process.stderr.write(`${e instanceof Error ? e.stack ?? e : e}\n`);
    process.exit(1);
});
