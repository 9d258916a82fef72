// tests/wire/record.mjs SDK-ENTRY: makes each everyday call of the JS SDK once against the mock in the
// environment, each after a mark that names it. Prints one line per call: name, outcome.
import { pathToFileURL } from 'node:url'

const { Sandbox } = await import(pathToFileURL(process.argv[2]))
let sandbox, command

const outcome = (value) => (value === undefined || typeof value === 'object' ? 'ok' : JSON.stringify(value))
async function call(name, make) {
  await fetch(`${process.env.E2B_API_URL}/__mark?op=${name}`, { method: 'POST' })
  try {
    console.log(`${name}\t${outcome(await make())}`)
  } catch (error) {
    console.log(`${name}\t${error.constructor.name}: ${error.message.split('\n')[0]}`)
  }
}

await call('create', async () => { sandbox = await Sandbox.create('hello') })
await call('create_options', async () => {
  const other = await Sandbox.create('hello', { timeoutMs: 61_500, metadata: { a: 'b c' }, envs: { X: '1' } })
  await other.kill()
})
await call('create_unknown_template', () => Sandbox.create('nosuch'))
await call('connect', () => Sandbox.connect(sandbox.sandboxId))
await call('connect_timeout', () => Sandbox.connect(sandbox.sandboxId, { timeoutMs: 120_000 }))
await call('connect_unknown', () => Sandbox.connect('inone'))
await call('run', async () => (await sandbox.commands.run('echo hi')).stdout)
await call('run_exit_code', () => sandbox.commands.run('exit 7'))
await call('run_options', async () =>
  (await sandbox.commands.run('echo $A', { envs: { A: 'x' }, timeoutMs: 5000, user: 'user' })).stdout)
await call('run_no_timeout', async () => (await sandbox.commands.run('true', { timeoutMs: 0 })).exitCode)
await call('run_background_stdin', async () => {
  command = await sandbox.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 })
})
await call('commands_list', async () => (await sandbox.commands.list()).length)
await call('send_stdin', () => sandbox.commands.sendStdin(command.pid, 'line\n'))
await call('close_stdin', () => sandbox.commands.closeStdin(command.pid))
await call('wait', async () => (await command.wait()).stdout)
await call('commands_connect_and_kill', async () => {
  const sleeper = await sandbox.commands.run('sleep 100', { background: true })
  const again = await sandbox.commands.connect(sleeper.pid)
  await sleeper.disconnect()
  return again.kill()
})
await call('commands_kill_unknown', () => sandbox.commands.kill(4242))
await call('write_text', () => sandbox.files.write('a.txt', 'hello'))
await call('write_bytes', () => sandbox.files.write('b.bin', new Uint8Array([0, 1, 254, 255]).buffer))
await call('write_many', () => sandbox.files.write([{ path: 'c.txt', data: 'c' }, { path: 'd/e.txt', data: 'e' }]))
await call('write_octet_stream', () => sandbox.files.write('f.txt', 'raw', { useOctetStream: true }))
await call('read_text', () => sandbox.files.read('a.txt'))
await call('read_bytes', async () => (await sandbox.files.read('b.bin', { format: 'bytes' })).length)
await call('read_missing', () => sandbox.files.read('nosuch'))
await call('list', async () => (await sandbox.files.list('.')).length)
await call('make_dir', () => sandbox.files.makeDir('dir'))
await call('make_dir_again', () => sandbox.files.makeDir('dir'))
await call('exists', () => sandbox.files.exists('dir'))
await call('exists_missing', () => sandbox.files.exists('nosuch'))
await call('file_info', async () => (await sandbox.files.getInfo('a.txt')).name)
await call('rename', async () => (await sandbox.files.rename('a.txt', 'dir/z.txt')).path)
await call('remove', () => sandbox.files.remove('dir'))
await call('sandbox_list', async () => (await Sandbox.list({ limit: 10 }).nextItems()).length)
await call('sandbox_list_query', async () =>
  (await Sandbox.list({ query: { metadata: { 'a b': 'c&d' }, state: ['running'] } }).nextItems()).length)
await call('sandbox_info', async () => (await Sandbox.getInfo(sandbox.sandboxId)).state)
await call('set_timeout', () => sandbox.setTimeout(90_500))
await call('is_running', () => sandbox.isRunning())
await call('kill', () => sandbox.kill())
await call('kill_again', () => sandbox.kill())
await call('is_running_after_kill', () => sandbox.isRunning())
await call('run_after_kill', () => sandbox.commands.run('true'))
