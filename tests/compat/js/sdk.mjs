// tests/compat/js/sdk.mjs SDK-ENTRY [TEMPLATE]: the JS SDK, unmodified, against the engine that the
// environment names (eval "$(abx env)"). Every check says what a user of the SDK would rely on.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { pathToFileURL } from 'node:url'
import { check, isCheck, refused, runAll, until } from './checks.mjs'
import { addErrors } from './errors.mjs'
import { addGit } from './git.mjs'

const sdk = await import(pathToFileURL(process.argv[2]))
const { Sandbox, CommandExitError, NotFoundError, FileNotFoundError, SandboxNotFoundError } = sdk
const { TimeoutError, AuthenticationError, InvalidArgumentError, SandboxError } = sdk
const template = process.argv[3] ?? 'host'
const RUN = `run${process.pid}-${Date.now()}`
let sandbox

const run = (text, options) => sandbox.commands.run(text, options)
const output = async (text, options) => (await run(text, options)).stdout.trim()
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

check('create', async () => {
  sandbox = await Sandbox.create(template, { metadata: { run: RUN, n: '0' }, envs: { AT_CREATE: 'yes' } })
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
})
check('run', async () => {
  const result = await run('echo hi')
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['hi\n', '', 0])
})
check('run_stderr', async () => {
  const result = await run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr], ['out\n', 'err\n'])
})
check('run_exit_code', async () => {
  const error = await refused(run('echo out; echo err >&2; exit 7'), CommandExitError)
  assert.deepEqual([error.exitCode, error.stdout, error.stderr], [7, 'out\n', 'err\n'])
})
check('run_no_such_program', async () => {
  const error = await refused(run('/no/such/program'), CommandExitError)
  assert.equal(error.exitCode, 127)
})
check('run_killed_by_signal', async () => {
  await refused(run('kill -9 $$'), CommandExitError, /signal: killed/)
})
check('run_streams_while_running', async () => {
  const seen = []
  const result = await run('echo one; sleep 1; echo two', { onStdout: (text) => seen.push([text, Date.now()]) })
  const ended = Date.now()
  assert.equal(result.stdout, 'one\ntwo\n')
  assert.equal(seen[0][0], 'one\n')
  assert.ok(ended - seen[0][1] >= 700, `the first chunk came ${ended - seen[0][1]} ms before the end`)
})
check('run_on_stderr', async () => {
  let seen = ''
  await run('echo err >&2', { onStderr: (text) => { seen += text } })
  assert.equal(seen, 'err\n')
})
check('run_env_at_create', async () => assert.equal(await output('echo $AT_CREATE'), 'yes'))
check('run_env_of_command', async () => {
  assert.equal(await output('echo $A-$AT_CREATE', { envs: { A: 'x y', AT_CREATE: 'no' } }), 'x y-no')
})
check('run_env_of_sandbox', async () => {
  assert.equal(await output('echo $E2B_SANDBOX $E2B_SANDBOX_ID'), `true ${sandbox.sandboxId}`)
})
check('run_user_and_home', async () => {
  assert.equal(await output('whoami; echo $HOME; pwd'), 'user\n/home/user\n/home/user')
})
check('run_cwd', async () => assert.equal(await output('pwd', { cwd: '/tmp' }), '/tmp'))
check('run_cwd_missing', () => refused(run('pwd', { cwd: '/no/such' }), InvalidArgumentError, /does not exist/))
check('run_unknown_user', () => refused(run('true', { user: 'nosuch' }), AuthenticationError, /nosuch/))
check('run_timeout', async () => {
  const began = Date.now()
  await refused(run('sleep 987', { timeoutMs: 700 }), TimeoutError)
  assert.ok(Date.now() - began < 10_000)
  await until(async () => (await output("ps -eo args | grep -c '[s]leep 987' || true")) === '0', 'the command is gone')
})
check('run_multibyte', async () => {
  const text = await output("for i in $(seq 3000); do printf 'aé漢'; done")
  assert.equal(text, 'aé漢'.repeat(3000))
})
check('run_long_command', async () => {
  assert.equal(await output(`: '${'x'.repeat(200_000)}'; echo done`), 'done')
})
check('run_background_child_keeps_pipe', async () => {
  const began = Date.now()
  assert.equal(await output('sleep 300 & echo done'), 'done')
  assert.ok(Date.now() - began < 20_000)
})
check('run_20_mb_output', async () => {
  const result = await run("head -c 20000000 /dev/zero | tr '\\0' x")
  assert.equal(result.stdout.length, 20_000_000)
  assert.equal(result.stdout, 'x'.repeat(20_000_000))
})
check('run_20_at_once', async () => {
  const codes = await Promise.all(Array.from({ length: 20 }, (_, i) =>
    run(`exit ${i + 1}`).then(() => 0, (error) => error.exitCode)))
  assert.deepEqual(codes, Array.from({ length: 20 }, (_, i) => i + 1))
})
check('background_connect_kill', async () => {
  const first = await run('echo started; sleep 300', { background: true })
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === first.pid && p.args.includes('-c')))
  const second = await sandbox.commands.connect(first.pid)
  assert.equal(second.pid, first.pid)
  assert.equal(await second.kill(), true)
  await refused(first.wait(), CommandExitError, /signal: killed/)
  await refused(second.wait(), CommandExitError, /signal: killed/)
  assert.equal(await sandbox.commands.kill(first.pid), false)
  assert.ok(!(await sandbox.commands.list()).some((p) => p.pid === first.pid))
})
check('background_survives_disconnect', async () => {
  const command = await run('sleep 1; echo late > /tmp/late', { background: true })
  await command.disconnect()
  await until(() => sandbox.files.exists('/tmp/late'), 'the command went on')
})
check('connect_sees_later_output', async () => {
  const first = await run('while ! [ -e /tmp/go ]; do sleep 0.05; done; echo seen', { background: true })
  let text = ''
  const second = await sandbox.commands.connect(first.pid, { onStdout: (chunk) => { text += chunk } })
  await sandbox.files.write('/tmp/go', '')
  await Promise.all([first.wait(), second.wait()])
  assert.deepEqual([first.stdout, text], ['seen\n', 'seen\n'])
})
check('commands_connect_unknown', () => refused(sandbox.commands.connect(3_999_999), NotFoundError, /not found/))
check('stdin', async () => {
  const command = await run('cat', { background: true, stdin: true })
  await sandbox.commands.sendStdin(command.pid, 'line one\n')
  await sandbox.commands.sendStdin(command.pid, 'line two\n')
  await sandbox.commands.closeStdin(command.pid)
  const result = await command.wait()
  assert.equal(result.stdout, 'line one\nline two\n')
})
check('stdin_of_a_handle', async () => {
  const command = await run('cat; echo bad >&2; exit 3', { background: true, stdin: true })
  assert.equal(command.exitCode, undefined)
  if (command.sendStdin) { // newer ones have it on the handle too
    await command.sendStdin('word\n')
    await command.closeStdin()
  } else {
    await sandbox.commands.sendStdin(command.pid, 'word\n')
    await sandbox.commands.closeStdin(command.pid)
  }
  await refused(command.wait(), CommandExitError)
  assert.deepEqual([command.exitCode, command.stdout, command.stderr], [3, 'word\n', 'bad\n'])
  assert.match(command.error, /exit status 3/)
})
check('stdin_is_null_by_default', async () => assert.equal(await output('wc -c'), '0'))

check('files_text', async () => {
  const info = await sandbox.files.write('a.txt', 'hello é漢\n')
  assert.deepEqual([info.path, info.name, info.type], ['/home/user/a.txt', 'a.txt', 'file'])
  assert.equal(await sandbox.files.read('a.txt'), 'hello é漢\n')
  assert.equal(await output('cat a.txt; stat -c %U:%a a.txt'), 'hello é漢\nuser:644')
})
check('files_empty', async () => {
  await sandbox.files.write('empty', '')
  assert.equal(await sandbox.files.read('empty'), '')
})
check('files_odd_name', async () => {
  const name = `/home/user/odd dir/a&b=c+d "é漢'%20.txt`
  await sandbox.files.write(name, 'odd')
  assert.equal(await sandbox.files.read(name), 'odd')
  assert.equal((await sandbox.files.list('/home/user/odd dir'))[0].path, name)
})
check('files_8_mb_random', async () => {
  const bytes = randomBytes(8 << 20)
  await sandbox.files.write('random.bin', bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  assert.equal((await output('sha256sum < random.bin')).split(' ')[0], sha256(bytes))
  const back = Buffer.from(await sandbox.files.read('random.bin', { format: 'bytes' }))
  assert.equal(back.length, bytes.length)
  assert.ok(back.equals(bytes))
})
check('files_octet_stream', async () => {
  const bytes = randomBytes(1 << 20)
  await sandbox.files.write('stream.bin', new Blob([bytes]), { useOctetStream: true })
  assert.equal((await output('sha256sum < stream.bin')).split(' ')[0], sha256(bytes))
})
check('files_read_stream', async () => {
  const stream = await sandbox.files.read('random.bin', { format: 'stream' })
  const hash = createHash('sha256')
  for await (const chunk of stream) hash.update(chunk)
  assert.equal(hash.digest('hex'), (await output('sha256sum < random.bin')).split(' ')[0])
})
check('files_write_many', async () => {
  const infos = await sandbox.files.write([{ path: 'many/1.txt', data: '1' }, { path: 'many/2.txt', data: '2' }])
  assert.deepEqual(infos.map((i) => i.path), ['/home/user/many/1.txt', '/home/user/many/2.txt'])
  assert.equal(await output('cat many/1.txt many/2.txt'), '12')
})
check('files_read_missing', () => refused(sandbox.files.read('nosuch'), NotFoundError, /nosuch' does not exist/))
check('files_read_directory', () => refused(sandbox.files.read('many'), InvalidArgumentError, /is a directory/))
check('files_list', async () => {
  const entries = await sandbox.files.list('many')
  assert.deepEqual(entries.map((e) => [e.name, e.type, e.path, e.size]),
    [['1.txt', 'file', '/home/user/many/1.txt', 1], ['2.txt', 'file', '/home/user/many/2.txt', 1]])
})
check('files_list_depth', async () => {
  await sandbox.files.write('deep/a/b/c.txt', '')
  const names = async (depth) => (await sandbox.files.list('deep', { depth })).map((e) => e.name)
  assert.deepEqual(await names(1), ['a'])
  assert.deepEqual(await names(3), ['a', 'b', 'c.txt'])
})
check('files_list_missing', () => refused(sandbox.files.list('nosuch'), NotFoundError))
check('files_list_file', () => refused(sandbox.files.list('a.txt'), InvalidArgumentError))
check('files_make_dir', async () => {
  assert.equal(await sandbox.files.makeDir('made/inner'), true)
  assert.equal(await sandbox.files.makeDir('made/inner'), false)
  assert.equal(await output('stat -c %F made/inner'), 'directory')
})
check('files_exists', async () => {
  assert.equal(await sandbox.files.exists('made'), true)
  assert.equal(await sandbox.files.exists('nosuch'), false)
})
check('files_info', async () => {
  await run('ln -sf a.txt link')
  const info = await sandbox.files.getInfo('a.txt')
  assert.deepEqual([info.name, info.type, info.size, info.mode, info.permissions, info.owner, info.group],
    ['a.txt', 'file', 12, 0o644, '-rw-r--r--', 'user', 'user'])
  assert.ok(Math.abs(info.modifiedTime - Date.now()) < 3_600_000)
  assert.equal((await sandbox.files.getInfo('link')).symlinkTarget, '/home/user/a.txt')
  await refused(sandbox.files.getInfo('nosuch'), NotFoundError)
})
check('files_rename', async () => {
  const info = await sandbox.files.rename('a.txt', 'renamed/b.txt')
  assert.deepEqual([info.path, info.type], ['/home/user/renamed/b.txt', 'file'])
  assert.equal(await sandbox.files.exists('a.txt'), false)
  await refused(sandbox.files.rename('nosuch', 'x'), NotFoundError)
})
check('files_remove', async () => {
  await sandbox.files.remove('renamed')
  assert.equal(await sandbox.files.exists('renamed'), false)
  await sandbox.files.remove('nosuch')
})

check('files_write_gzip', async () => {
  const text = 'packed '.repeat(100_000)
  await sandbox.files.write('packed.txt', text, { gzip: true, useOctetStream: true })
  assert.equal((await output('sha256sum < packed.txt')).split(' ')[0], sha256(text))
  assert.equal(await sandbox.files.read('packed.txt', { gzip: true }), text)
})
check('files_write_files', async () => {
  const infos = await sandbox.files.writeFiles([{ path: 'wf/1', data: '1' }, { path: 'wf/2', data: '2' }])
  assert.deepEqual(infos.map((i) => i.path), ['/home/user/wf/1', '/home/user/wf/2'])
})
check('files_metadata', async () => {
  const info = await sandbox.files.write('meta.txt', 'x', { metadata: { Owner: 'me', 'run-id': '7' } })
  assert.deepEqual(info.metadata, { owner: 'me', 'run-id': '7' })
  assert.deepEqual((await sandbox.files.getInfo('meta.txt')).metadata, { owner: 'me', 'run-id': '7' })
  const listed = (await sandbox.files.list('.')).find((e) => e.name === 'meta.txt')
  assert.deepEqual(listed.metadata, { owner: 'me', 'run-id': '7' })
  assert.equal((await sandbox.files.write('meta.txt', 'x')).metadata, undefined)
  assert.equal((await sandbox.files.getInfo('meta.txt')).metadata, undefined)
})
check('files_watch', async () => {
  await sandbox.files.makeDir('watched')
  const seen = []
  const handle = await sandbox.files.watchDir('watched', (event) => { seen.push(event) })
  await sandbox.files.write('watched/a', 'text')
  await until(() => seen.length >= 3, 'three events')
  assert.deepEqual(seen.map((e) => [e.name, e.type]), [['a', 'create'], ['a', 'chmod'], ['a', 'write']])
  await sandbox.files.rename('watched/a', 'watched/b')
  await sandbox.files.remove('watched/b')
  await until(() => seen.length >= 6, 'six events')
  assert.deepEqual(seen.slice(3).map((e) => [e.name, e.type]), [['a', 'rename'], ['b', 'create'], ['b', 'remove']])
  await handle.stop()
  await sandbox.files.write('watched/late', '')
  await run('true')
  assert.equal(seen.length, 6)
})
check('files_watch_recursive_with_entries', async () => {
  await sandbox.files.makeDir('tree/old')
  const seen = []
  const handle = await sandbox.files.watchDir('tree', (event) => { seen.push(event) },
    { recursive: true, includeEntry: true, allowNetworkMounts: true })
  await run('mkdir -p tree/a/b/c && touch tree/a/b/c/f && echo x > tree/old/g')
  const created = (name) => seen.find((e) => e.name === name && e.type === 'create')
  await until(() => created('a/b/c/f') && created('old/g'), 'both files were seen')
  assert.equal(created('a/b/c/f').entry.path, '/home/user/tree/a/b/c/f')
  await handle.stop()
})
check('files_watch_ends', async () => {
  let ended
  const exit = new Promise((done) => { ended = done })
  await sandbox.files.watchDir('watched', () => {}, { timeoutMs: 700, onExit: ended })
  await exit
  await refused(sandbox.files.watchDir('nosuch', () => {}), NotFoundError, /nosuch/)
  await refused(sandbox.files.watchDir('meta.txt', () => {}), InvalidArgumentError, /not a directory/)
})

const decode = (bytes) => new TextDecoder().decode(bytes)
const type = (pid, text) => sandbox.pty.sendInput(pid, new TextEncoder().encode(text))
check('pty', async () => {
  let text = ''
  const shell = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { text += decode(data) }, envs: { A: 'pty' } })
  await type(shell.pid, 'stty size; echo $A-$TERM\n')
  await until(() => /24 80/.test(text) && /pty-xterm-256color/.test(text), 'the first answer')
  await sandbox.pty.resize(shell.pid, { cols: 120, rows: 40 })
  await type(shell.pid, 'tput cols; stty size\n')
  await until(() => /120\r?\n/.test(text) && /40 120/.test(text), 'the new size')
  await type(shell.pid, 'exit\n')
  assert.equal((await shell.wait()).exitCode, 0)
})
check('pty_connect_and_kill', async () => {
  let text = ''
  const shell = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await shell.disconnect()
  const again = await sandbox.pty.connect(shell.pid, { onData: (data) => { text += decode(data) } })
  await type(again.pid, 'echo again-$((40+2))\n')
  await until(() => /again-42/.test(text), 'the shell answers the second client')
  assert.equal(await sandbox.pty.kill(again.pid), true)
  await refused(again.wait(), CommandExitError, /signal: killed/)
  assert.equal(await sandbox.pty.kill(again.pid), false)
})
check('urls', async () => {
  await sandbox.files.write('signed.txt', 'by url')
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }
  const get = async (options) => {
    const url = new URL(await sandbox.downloadUrl('signed.txt', options))
    const base = new URL(process.env.E2B_SANDBOX_URL ?? process.env.E2B_API_URL)
    return fetch(new URL(url.pathname + url.search, base), { headers })
  }
  assert.equal(await (await get({})).text(), 'by url')
  assert.equal(await (await get({ useSignatureExpiration: 60 })).text(), 'by url')
  assert.equal((await get({ useSignatureExpiration: -60 })).status, 401)
  assert.match(await sandbox.uploadUrl('signed.txt'), /\/files\?.*signature=/)
})

// Which checks drive which public method that talks to envd; null: not public, or no call.
const methods = {
  files: { read: ['files_text', 'files_read_stream'], write: ['files_text', 'files_write_gzip', 'files_metadata'],
    writeFiles: ['files_write_files'], list: ['files_list'], makeDir: ['files_make_dir'], rename: ['files_rename'],
    remove: ['files_remove'], exists: ['files_exists'], getInfo: ['files_info'],
    watchDir: ['files_watch', 'files_watch_recursive_with_entries', 'files_watch_ends'] },
  commands: { list: ['background_connect_kill'], run: ['run'], connect: ['background_connect_kill'],
    kill: ['background_connect_kill'], sendStdin: ['stdin'], closeStdin: ['stdin'], start: null, supportsStdinClose: null },
  pty: { create: ['pty'], connect: ['pty_connect_and_kill'], sendInput: ['pty'], resize: ['pty'],
    kill: ['pty_connect_and_kill'] },
}
const sandboxMethods = {
  isRunning: ['sandbox_is_running'], uploadUrl: ['urls'], downloadUrl: ['urls'], getInfo: ['sandbox_info'], kill: ['sandbox_kill'],
  setTimeout: ['sandbox_set_timeout'], connect: ['sandbox_connect'], getHost: ['sandbox_addresses'], getMcpUrl: ['sandbox_addresses'],
  getMcpToken: ['sandbox_addresses'], pause: ['what_is_not_built_says_so'], betaPause: ['what_is_not_built_says_so'],
  createSnapshot: ['what_is_not_built_says_so'], listSnapshots: ['what_is_not_built_says_so'], fork: ['what_is_not_built_says_so'],
  updateNetwork: ['what_is_not_built_says_so'], getMetrics: ['sandbox_metrics'], resolveApiOpts: null, fileUrl: null,
}
const handleMethods = {
  wait: ['stdin_of_a_handle'], kill: ['background_connect_kill'], disconnect: ['background_survives_disconnect'],
  sendStdin: ['stdin_of_a_handle'], closeStdin: ['stdin_of_a_handle'], exitCode: ['stdin_of_a_handle'], error: ['stdin_of_a_handle'],
  stderr: ['stdin_of_a_handle'], stdout: ['stdin_of_a_handle'], flushDecoders: null, iterateEvents: null, handleEvents: null,
}
const watchMethods = { stop: ['files_watch'], iterateEvents: null, handleEvents: null }

check('sandbox_metrics', async () => {
  const last = (await sandbox.getMetrics()).at(-1)
  assert.ok(last.memUsed > 0 && last.memUsed < last.memTotal && last.cpuCount > 0, JSON.stringify(last))
})
check('sandbox_addresses', async () => {
  assert.equal(sandbox.getHost(8080), `8080-${sandbox.sandboxId}.${process.env.E2B_DOMAIN}`)
  assert.match(sandbox.getMcpUrl(), new RegExp(`://\\d+-${sandbox.sandboxId}\\.`))
  await run('mkdir -p /etc/mcp-gateway && printf token > /etc/mcp-gateway/.token', { user: 'root' })
  assert.equal(await sandbox.getMcpToken(), 'token')
})
const gitMethods = addGit(sdk, () => sandbox)
addErrors(sdk, () => sandbox, template)
check('every_method_has_a_check', async () => {
  const command = await run('sleep 300', { background: true })
  const watch = await sandbox.files.watchDir('/tmp', () => {})
  const parts = [['files', sandbox.files, methods.files], ['commands', sandbox.commands, methods.commands], ['pty', sandbox.pty, methods.pty],
    ['git', sandbox.git, gitMethods], ['sandbox', sandbox, sandboxMethods], ['handle', command, handleMethods], ['watch', watch, watchMethods]]
  for (const [part, object, known] of parts) {
    const there = Object.getOwnPropertyNames(Object.getPrototypeOf(object)).filter((name) => name !== 'constructor')
    assert.ok(there.length >= 2, `${part} has methods`)
    const without = there.filter((name) => !(name in known))
    assert.deepEqual(without, [], `${part}: methods without a check`)
    const missing = Object.values(known).flat().filter((name) => name && !isCheck(name))
    assert.deepEqual(missing, [], `${part}: checks that do not exist`)
  }
  await watch.stop()
  await command.kill()
})

check('sandbox_info', async () => {
  const info = await Sandbox.getInfo(sandbox.sandboxId)
  assert.deepEqual([info.sandboxId, info.state, info.metadata], [sandbox.sandboxId, 'running', { run: RUN, n: '0' }])
  const life = info.endAt - info.startedAt
  // 300 s from the start, or from the last connect of the checks before this one
  const age = Date.now() - info.startedAt.getTime()
  assert.ok(life > 299_000 && life < 301_000 + age, `lives ${life} ms at the age of ${age} ms`)
})
check('sandbox_set_timeout', async () => {
  await sandbox.setTimeout(500_000)
  const { endAt } = await Sandbox.getInfo(sandbox.sandboxId)
  assert.ok(Math.abs(endAt - Date.now() - 500_000) < 5_000, `ends at ${endAt.toISOString()}`)
})
check('sandbox_connect', async () => {
  const before = (await Sandbox.getInfo(sandbox.sandboxId)).endAt
  const other = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(other.sandboxId, sandbox.sandboxId)
  assert.equal((await other.commands.run('echo hi')).stdout, 'hi\n')
  assert.deepEqual((await Sandbox.getInfo(sandbox.sandboxId)).endAt, before)
})
check('sandbox_connect_unknown', () =>
  refused(Sandbox.connect('i0000000000000000none'), SandboxNotFoundError))
check('sandbox_unknown_template', () => refused(Sandbox.create('no-such-template'), SandboxError, /404.*no-such-template/))
check('sandbox_wrong_key', () =>
  refused(Sandbox.create(template, { apiKey: `e2b_${'a'.repeat(40)}` }), AuthenticationError))
check('sandbox_is_running', async () => assert.equal(await sandbox.isRunning(), true))
check('sandbox_list', async () => {
  const more = await Promise.all([1, 2].map((n) => Sandbox.create(template, { metadata: { run: RUN, n: `${n} &=+é` } })))
  const pages = Sandbox.list({ query: { metadata: { run: RUN } }, limit: 2 })
  const first = await pages.nextItems()
  assert.deepEqual([first.length, pages.hasNext], [2, true])
  const rest = await pages.nextItems()
  assert.deepEqual([rest.length, pages.hasNext], [1, false])
  assert.deepEqual(new Set([...first, ...rest].map((s) => s.sandboxId)),
    new Set([sandbox, ...more].map((s) => s.sandboxId)))
  const one = await Sandbox.list({ query: { metadata: { n: '2 &=+é', run: RUN }, state: ['running'] } }).nextItems()
  assert.deepEqual(one.map((s) => s.sandboxId), [more[1].sandboxId])
  await Promise.all(more.map((s) => s.kill()))
})
check('sandbox_metrics', async () => {
  const [sample] = await sandbox.getMetrics({ start: new Date(Date.now() - 60_000) })
  const info = await sandbox.getInfo()
  assert.deepEqual([sample.cpuCount, sample.memTotal], [info.cpuCount, info.memoryMB * 1048576])
  assert.ok(sample.memUsed > 0 && sample.diskTotal >= sample.diskUsed && sample.cpuUsedPct >= 0)
  assert.deepEqual(await sandbox.getMetrics({ end: new Date(Date.now() - 3_600_000) }), [])
})
check('metrics_of_several', async () => {
  const client = new sdk.ApiClient(new sdk.ConnectionConfig())
  const other = await Sandbox.create(template)
  try {
    const ids = [sandbox.sandboxId, other.sandboxId]
    const { data } = await client.api.GET('/sandboxes/metrics', { params: { query: { sandbox_ids: [...ids, 'i0000000000000000none'] } } })
    assert.deepEqual(Object.keys(data.sandboxes).sort(), [...ids].sort())
    assert.equal(data.sandboxes[ids[1]].memTotal, (await other.getInfo()).memoryMB * 1048576)
  } finally {
    await other.kill()
  }
})
check('sandboxes_are_apart', async () => {
  const other = await Sandbox.create(template)
  try {
    await other.files.write('/tmp/mine', 'x')
    assert.equal(await sandbox.files.exists('/tmp/mine'), false)
    assert.notEqual((await other.commands.run('hostname')).stdout, (await run('hostname')).stdout)
  } finally {
    await other.kill()
  }
})
check('sandbox_timeout_kills', async () => {
  const other = await Sandbox.create(template, { timeoutMs: 1_500 })
  await until(async () => !(await other.isRunning()), 'the sandbox ended', 15_000)
  await refused(Sandbox.getInfo(other.sandboxId), NotFoundError)
})
check('kill_in_mid_stream', async () => {
  const other = await Sandbox.create(template)
  let seen = 0
  const running = other.commands.run('yes', { timeoutMs: 0, onStdout: () => { seen++ }, retainOutput: false })
  const ended = refused(running, TimeoutError, /killed or reached its end of life/)
  await until(() => seen > 0, 'output came')
  assert.equal(await other.kill(), true)
  await ended
})
check('kill_in_a_quiet_stream', async () => {
  const other = await Sandbox.create(template)
  const command = await other.commands.run('sleep 300', { background: true, timeoutMs: 0 })
  const ended = refused(command.wait(), TimeoutError, /killed or reached its end of life/)
  assert.equal(await other.kill(), true)
  await ended
})
check('kill_in_mid_download', async () => {
  const other = await Sandbox.create(template)
  await other.commands.run('truncate -s 8G /tmp/large')
  const ended = refused(other.files.read('/tmp/large', { format: 'bytes' }), TimeoutError, /killed or reached its end of life/)
  await new Promise((resolve) => setTimeout(resolve, 400))
  assert.equal(await other.kill(), true)
  await ended
})
check('sandbox_kill', async () => {
  const { sandboxId } = sandbox
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await Sandbox.kill(sandboxId), false)
  await refused(Sandbox.connect(sandboxId), SandboxNotFoundError)
  await refused(Sandbox.getInfo(sandboxId), SandboxNotFoundError)
  await refused(sandbox.commands.run('true'), SandboxError)
  const left = await Sandbox.list({ query: { metadata: { run: RUN } } }).nextItems()
  assert.deepEqual(left, [])
})

assert.ok(FileNotFoundError.prototype instanceof NotFoundError || FileNotFoundError.prototype instanceof SandboxError)
await runAll()
