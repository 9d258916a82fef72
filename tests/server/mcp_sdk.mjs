// tests/server/mcp_sdk.mjs: the unmodified MCP SDK against the server. Arguments: SDK folder, URL, token, base folder.
// Prints a line per check that fails, then "N passed, N failed".
import { pathToFileURL } from 'node:url';

const [sdk, url, token, base] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${sdk}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${name}.js`).href);
const { Client } = await load('index');
const { StreamableHTTPClientTransport } = await load('streamableHttp');
let passed = 0, failed = 0;

async function check(name, fn) {
    try {
        const problem = await fn();
        if (problem !== undefined && problem !== true) throw new Error(JSON.stringify(problem));
        passed++;
    } catch (error) {
        failed++;
        console.log(`${name}: ${error.stack ?? error}`);
    }
}

function connect(credential) {
    const transport = new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { Authorization: `Bearer ${credential}` } },
    });
    const client = new Client({ name: 'tests', version: '1' });
    return { client, transport };
}

const { client, transport } = connect(token);
await check('connect', async () => {
    await client.connect(transport);
    return client.getServerVersion().name === 'agent-sandbox-server' && transport.sessionId.length === 32;
});
await check('ping', async () => { await client.ping(); });
await check('capabilities', () => client.getServerCapabilities().tools !== undefined);
let tools = [];
await check('tools are listed and are valid', async () => {
    ({ tools } = await client.listTools());
    const names = tools.map((tool) => tool.name);
    return ['greet', 'files_list', 'shell', 'files_stat'].every((name) => names.includes(name)) &&
        new Set(names).size === names.length && tools.every((tool) => tool.inputSchema.type === 'object');
});
await check('a command', async () => {
    const answer = await client.callTool({ name: 'greet', arguments: { name: 'sdk' } });
    return answer.structuredContent.result[0] === 'hello sdk' && !answer.isError;
});
await check('a command with a wrong argument', async () =>
    (await client.callTool({ name: 'greet', arguments: { name: 'x', times: 'many' } })).isError);
await check('an endpoint', async () => {
    const answer = await client.callTool({ name: 'shell', arguments: { command: 'echo from-the-sdk' } });
    return answer.structuredContent.stdout === 'from-the-sdk\n' && answer.content[0].type === 'text';
});
await check('a file goes there and back', async () => {
    const path = `${base}/sdk file`, content_base64 = Buffer.from('content').toString('base64');
    await client.callTool({ name: 'files_upload_stream', arguments: { path, content_base64 } });
    const answer = await client.callTool({ name: 'files_download_stream', arguments: { path } });
    return answer.structuredContent.content_base64 === content_base64;
});
await check('a refusal is an error of the tool', async () => {
    const answer = await client.callTool({ name: 'files_stat', arguments: { path: '/etc/shadow' } });
    return answer.isError && answer.structuredContent.code === 'path_not_allowed';
});
await check('many calls at once', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) =>
        client.callTool({ name: 'shell', arguments: { command: `echo ${i}` } })));
    return answers.every((answer, i) => answer.structuredContent.stdout === `${i}\n`);
});
await check('an unknown tool', async () => {
    const answer = await client.callTool({ name: 'no_such_tool', arguments: {} }).catch((error) => error);
    return answer instanceof Error && answer.code === -32602;
});
await check('an unknown method', async () => {
    const answer = await client.listResources().catch((error) => error);
    return answer instanceof Error;
});
await check('a cancelled call', async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 300);
    const answer = await client.callTool({ name: 'shell', arguments: { command: 'sleep 30' } }, undefined, { signal: stop.signal })
        .catch((error) => error);
    await client.ping();
    return answer instanceof Error;
});
await check('the session ends', async () => {
    await transport.terminateSession();
    await client.close();
});
await check('a wrong token', async () => {
    const other = connect('wrong-wrong-wrong-wrong-wrong');
    const answer = await other.client.connect(other.transport).catch((error) => error);
    return answer instanceof Error && /401|nauthorized/.test(String(answer));
});
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
