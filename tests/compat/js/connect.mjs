// tests/compat/js/connect.mjs MODULES DESCRIPTORS: both services of envd by @connectrpc/connect-node, with clients made of our
// .proto files alone, in JSON and in protobuf. SANDBOX names the URL and the headers of the calls.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { check, runAll } from './checks.mjs'

const [modules, descriptors] = process.argv.slice(2)
const require = createRequire(pathToFileURL(`${modules}/`))
const load = (name) => require(name)
const { create, createFileRegistry, fromBinary } = load('@bufbuild/protobuf')
const { FileDescriptorSetSchema, MessageOptionsSchema } = load('@bufbuild/protobuf/wkt')
const { Code, ConnectError, createClient } = load('@connectrpc/connect')
const { createConnectTransport } = load('@connectrpc/connect-node')

// A map is written as a repeated message *Entry in our files: protoc-c knows no maps. It is one on the wire and in JSON.
function asMaps(set) {
  const mark = (message) => {
    if (message.name.endsWith('Entry')) message.options = create(MessageOptionsSchema, { mapEntry: true })
  }
  const fields = (message) => message.field.filter((f) => f.label === 3 && /\.(Envs|Metadata)Entry$/.test(f.typeName))
  for (const file of set.file) {
    const wanted = file.messageType.flatMap(fields).map((f) => f.typeName.split('.').pop())
    file.messageType.filter((m) => wanted.includes(m.name)).forEach(mark)
    for (const message of file.messageType) {
      for (const field of fields(message)) { // a map entry lives in the message that has the map
        const entry = file.messageType.find((m) => m.name === field.typeName.split('.').pop())
        message.nestedType.push(entry)
        field.typeName = `.${file.package}.${message.name}.${entry.name}`
      }
    }
    file.messageType = file.messageType.filter((m) => !wanted.includes(m.name))
  }
  return set
}

const registry = createFileRegistry(asMaps(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors))))
const { url, headers } = JSON.parse(process.env.SANDBOX)
const decoder = new TextDecoder()
const bytes = (text) => new TextEncoder().encode(text)

async function failsWith(code, pattern, call) {
  try {
    await call()
  } catch (error) {
    assert.ok(error instanceof ConnectError, `${error}`)
    assert.equal(Code[error.code], Code[code], error.message)
    assert.match(error.rawMessage, pattern)
    return
  }
  assert.fail(`expected ${Code[code]}`)
}

/** [pid, out, err, end] of a stream of events; @onStart is called with the pid. */
async function collect(stream, onStart = async () => {}) {
  const seen = { pid: 0, stdout: '', stderr: '', pty: '', end: undefined }
  for await (const { event } of stream) {
    const { case: kind, value } = event.event
    if (kind === 'start') await onStart(seen.pid = value.pid)
    if (kind === 'data') seen[value.output.case] += decoder.decode(value.output.value)
    if (kind === 'end') seen.end = value
  }
  return seen
}

function addChecks(format, useBinaryFormat) {
  const transport = createConnectTransport({
    baseUrl: url, httpVersion: '1.1', useBinaryFormat,
    interceptors: [(next) => (request) => {
      Object.entries(headers).forEach(([name, value]) => request.header.set(name, value))
      return next(request)
    }]
  })
  const process = createClient(registry.getService('process.Process'), transport)
  const files = createClient(registry.getService('filesystem.Filesystem'), transport)
  const shell = (text, more = {}) => ({ process: { cmd: '/bin/sh', args: ['-c', text], ...more }, stdin: false })
  const byPid = (pid) => ({ process: { selector: { case: 'pid', value: pid } } })
  const input = (text, kind = 'stdin') => ({ input: { case: kind, value: bytes(text) } })
  const dir = `/tmp/${format}`

  check(`${format}_start`, async () => {
    const seen = await collect(process.start(shell('echo $A; echo err >&2; pwd; exit 7', { envs: { A: 'α' }, cwd: '/tmp' })))
    assert.deepEqual([seen.stdout, seen.stderr, seen.end.exitCode, seen.end.exited, seen.end.status],
      ['α\n/tmp\n', 'err\n', 7, true, 'exit status 7'])
    assert.ok(seen.pid > 0)
  })
  check(`${format}_input_list_connect`, async () => {
    const text = { ...shell('read a; echo got $a; cat'), stdin: true, tag: `tag-${format}` }
    let second
    const seen = await collect(process.start(text), async (pid) => {
      const { processes } = await process.list({})
      assert.deepEqual(processes.filter((p) => p.pid === pid).map((p) => [p.config.cmd, p.config.args.length, p.tag]),
        [['/bin/sh', 2, `tag-${format}`]])
      const attached = process.connect({ process: { selector: { case: 'tag', value: `tag-${format}` } } })
      second = collect(attached, async () => {
        await process.sendInput({ ...byPid(pid), input: input('one\n') })
        await process.streamInput((async function * () {
          yield { event: { case: 'start', value: byPid(pid) } }
          for (const word of ['two', ' ', 'three']) yield { event: { case: 'data', value: { input: input(word) } } }
        })())
        await process.closeStdin(byPid(pid))
      })
    })
    assert.deepEqual([seen.stdout, (await second).stdout, seen.end.exitCode ?? 0], ['got one\ntwo three', 'got one\ntwo three', 0])
  })
  check(`${format}_signal`, async () => {
    const seen = await collect(process.start(shell('sleep 100')), (pid) => process.sendSignal({ ...byPid(pid), signal: 15 }))
    assert.deepEqual([seen.end.exitCode, seen.end.exited ?? false, seen.end.status], [-1, false, 'signal: terminated'])
  })
  check(`${format}_pty`, async () => {
    const seen = await collect(process.start({ ...shell('read x; stty size'), stdin: undefined, pty: { size: { cols: 80, rows: 24 } } }),
      async (pid) => {
        await process.update({ ...byPid(pid), pty: { size: { cols: 101, rows: 31 } } })
        await process.sendInput({ ...byPid(pid), input: input('\n', 'pty') })
      })
    assert.match(seen.pty, /31 101/)
  })
  check(`${format}_deadline_and_errors`, async () => {
    await failsWith(Code.DeadlineExceeded, /./, () => collect(process.start(shell('sleep 100'), { timeoutMs: 500 })))
    await failsWith(Code.NotFound, /process with pid 3999999 not found/, () => process.sendSignal({ ...byPid(3999999), signal: 9 }))
    await failsWith(Code.NotFound, /not found/, () => collect(process.connect(byPid(3999999))))
    await failsWith(Code.InvalidArgument, /cwd '\/no' does not exist/, () => collect(process.start(shell('x', { cwd: '/no' }))))
    await failsWith(Code.Unimplemented, /./, () => process.closeStdin({}))
  })
  check(`${format}_files`, async () => {
    const { entry } = await files.makeDir({ path: `${dir}/a` })
    assert.deepEqual([entry.name, entry.type, entry.path, entry.permissions, entry.owner], ['a', 2, `${dir}/a`, 'drwxr-xr-x', 'user'])
    assert.ok(Math.abs(Number(entry.modifiedTime.seconds) - Date.now() / 1000) < 600)
    await failsWith(Code.AlreadyExists, /already exists/, () => files.makeDir({ path: `${dir}/a` }))
    await collect(process.start(shell(`printf 12345 >${dir}/a/f; ln -s f ${dir}/a/l`)))
    const { entries } = await files.listDir({ path: dir, depth: 2 })
    assert.deepEqual(entries.map((e) => [e.name, e.size]).slice(1), [['f', 5n], ['l', 1n]])
    assert.equal((await files.stat({ path: `${dir}/a/l` })).entry.symlinkTarget, `${dir}/a/f`)
    assert.equal((await files.move({ source: `${dir}/a/f`, destination: `${dir}/b/g` })).entry.path, `${dir}/b/g`)
    await files.remove({ path: `${dir}/a` })
    await failsWith(Code.NotFound, /file not found/, () => files.stat({ path: `${dir}/a` }))
    await failsWith(Code.InvalidArgument, /not a directory/, () => files.listDir({ path: `${dir}/b/g` }))
  })
  check(`${format}_watch`, async () => {
    await files.makeDir({ path: `${dir}/w` })
    const { watcherId } = await files.createWatcher({ path: `${dir}/w` })
    const stop = new AbortController()
    const names = []
    for await (const { event } of files.watchDir({ path: `${dir}/w`, includeEntry: true }, { signal: stop.signal })) {
      if (event.case === 'start') await collect(process.start(shell(`echo x >${dir}/w/f`)))
      if (event.case !== 'filesystem') continue
      names.push([event.value.name, event.value.type])
      if (event.value.type !== 2) continue
      assert.equal(event.value.entry.name, 'f')
      break
    }
    stop.abort()
    assert.deepEqual(names, [['f', 1], ['f', 2]])
    const polled = (await files.getWatcherEvents({ watcherId })).events.map((e) => [e.name, e.type])
    assert.deepEqual(polled, names)
    await files.removeWatcher({ watcherId })
    await failsWith(Code.NotFound, /watcher with id/, () => files.getWatcherEvents({ watcherId }))
  })
}

addChecks('json', false)
addChecks('protobuf', true)
await runAll()
