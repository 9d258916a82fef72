// tests/compat/js/template.mjs SDK BASE: the JavaScript SDK's own template builder, unmodified, against the engine that
// the environment names. BASE is the template or image to build on ("" for the SDK's default base image).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { check, refused, runAll } from './checks.mjs'

const { Template, Sandbox, BuildError, FileUploadError, waitForFile, waitForTimeout } = await import(pathToFileURL(process.argv[2]).href)
const RUN = `js${process.pid}-${Date.now()}`
const context = mkdtempSync(join(tmpdir(), 'abx-compat-'))
process.on('exit', () => rmSync(context, { recursive: true }))
mkdirSync(join(context, 'app/deep'), { recursive: true })
writeFileSync(join(context, 'app/main.txt'), 'from the context\n')
writeFileSync(join(context, 'app/deep/x.bin'), Buffer.alloc(300_000, 7))
writeFileSync(join(context, 'one.txt'), 'one\n')
symlinkSync('main.txt', join(context, 'app/link'))

const logs = []
const options = { onBuildLogs: (entry) => logs.push(entry.message) }
const texts = () => logs.join('\n')
const image = () => Template({ fileContextPath: context }).fromBaseImage()
const full = () => image()
  .setEnvs({ GREETING: 'hello' })
  .setEnvs({ TARGET: '$GREETING world' })
  .runCmd('mkdir -p /opt/made && echo built > /opt/made/file', { user: 'root' })
  .copy('app', '/srv/app/', { user: 'user' })
  .copy('one.txt', '/home/user/copied.txt')
  .setWorkdir('/srv/app')
  .runCmd(['echo to stdout', 'echo to stderr >&2', 'cat main.txt'])
  .setStartCmd('echo "start says $TARGET"; date +%N > /tmp/started; sleep 1000', waitForFile('/tmp/started'))
let sandbox

const output = async (text) => (await sandbox.commands.run(text)).stdout.trim()

check('build', async () => {
  const built = await Template.build(full(), `${RUN}:v1`, { ...options, tags: ['prod'], cpuCount: 1, memoryMB: 512 })
  assert.equal(built.name, `${RUN}:v1`)
  assert.match(built.buildId, /^[0-9a-f-]{36}$/)
  assert.deepEqual(built.tags.sort(), ['prod', 'v1'])
  assert.match(texts(), /base: stand-in for runtime\/base:/)
  assert.match(texts(), /RUN has loopback only/)
  assert.match(texts(), /\[stdout\]: to stdout/)
  assert.match(texts(), /\[stderr\]: to stderr/)
  assert.match(texts(), /from the context/)
  assert.match(texts(), /start says hello world/)
})
check('create', async () => {
  sandbox = await Sandbox.create(`${RUN}:v1`)
  assert.equal(await output('cat /opt/made/file'), 'built')
  assert.equal(await output('pwd; echo $TARGET; whoami'), '/srv/app\nhello world\nuser')
  assert.equal(await output('cat main.txt link; stat -c %U:%s main.txt deep/x.bin'),
    'from the context\nfrom the context\nuser:17\nuser:300000')
  assert.equal(await output('cat /home/user/copied.txt'), 'one')
  assert.notEqual(await output('cat /tmp/started'), '')
  assert.equal(await output('pgrep -c sleep'), '1')
  const info = await sandbox.getInfo()
  assert.equal(info.name, RUN)
  assert.deepEqual([info.cpuCount, info.memoryMB], [1, 512])
})
check('the_start_of_each_is_its_own', async () => {
  const other = await Sandbox.create(`${RUN}:prod`)
  const mine = await output('cat /tmp/started')
  const theirs = (await other.commands.run('cat /tmp/started')).stdout.trim()
  assert.notEqual(mine, theirs)
  await other.kill()
})
check('second_build_is_cached', async () => {
  logs.length = 0
  const began = Date.now()
  await Template.build(full(), `${RUN}:v2`, options)
  assert.equal(logs.filter((l) => l.startsWith('CACHED [builder')).length, 5, texts()) // all that made a layer
  assert.ok(Date.now() - began < 20_000)
})
check('failing_run', async () => {
  logs.length = 0
  const broken = image().runCmd('true')
    .runCmd('for i in $(seq 60); do echo "line $i"; done; exit 7') // the line of the error
    .runCmd('echo never')
  const error = await refused(Template.build(broken, `${RUN}-broken`, options), BuildError, /exit status 7/)
  assert.match(error.message, /step 2/)
  assert.match(error.message, /line 60/)
  assert.match(error.message, /line 11\n/)
  assert.doesNotMatch(error.message, /line 10\n/)
  assert.match(error.stack, /template\.mjs:\d+/)
  assert.doesNotMatch(texts(), /never/)
  await assert.rejects(Sandbox.create(`${RUN}-broken`), /default/)
})
check('never_ready', async () => {
  const stuck = image().setStartCmd('echo giving up; exit 4', waitForFile('/nowhere'))
  const error = await refused(Template.build(stuck, `${RUN}-stuck`, options), BuildError, /exit status 4/)
  assert.match(error.message, /giving up/)
})
check('missing_image', async () => {
  await refused(Template.build(Template().fromImage('python:3.12'), `${RUN}-none`, options), BuildError, /registry/)
})
check('from_template', async () => {
  const child = Template().fromTemplate(`${RUN}:v1`).runCmd('cat main.txt > /tmp/seen')
  await Template.build(child, `${RUN}-child`, options)
  const box = await Sandbox.create(`${RUN}-child`)
  assert.equal((await box.commands.run('cat /tmp/seen; pwd')).stdout, 'from the context\n/srv/app\n')
  await box.kill()
})
check('background', async () => {
  const slow = image().runCmd('sleep 2').setReadyCmd(waitForTimeout(10))
  const built = await Template.buildInBackground(slow, `${RUN}-slow`)
  const status = await Template.getBuildStatus(built)
  assert.equal(status.status, 'building')
})
// Stands before the engine; upload links that it gives out get another signature, and the engine takes no file by them.
async function falsify(request, response) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const headers = { 'x-api-key': request.headers['x-api-key'], 'content-type': 'application/json' }
  const body = chunks.length ? Buffer.concat(chunks) : undefined
  const answer = await fetch(process.env.E2B_API_URL + request.url, { method: request.method, headers, body })
  let text = await answer.text()
  if (request.url.includes('/files/')) {
    const link = JSON.parse(text)
    text = JSON.stringify({ ...link, url: `${link.url.slice(0, -4)}0000` })
  }
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
}
check('error_FileUploadError', async () => {
  const server = createServer(falsify).listen(0, '127.0.0.1')
  await once(server, 'listening')
  writeFileSync(join(context, 'fresh.txt'), RUN)
  const apiUrl = `http://127.0.0.1:${server.address().port}`
  try {
    await refused(Template.build(image().copy('fresh.txt', '/srv/'), `${RUN}-link`, { ...options, apiUrl }), FileUploadError, /403|Forbidden/)
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
check('exists_and_tags', async () => {
  assert.equal(await Template.exists(RUN), true)
  assert.equal(await Template.exists(`${RUN}-no`), false)
  await Template.assignTags(`${RUN}:v1`, ['stable'])
  assert.deepEqual((await Template.getTags(RUN)).map((t) => t.tag).sort(), ['prod', 'stable', 'v1', 'v2'])
  await Template.removeTags(RUN, ['stable'])
  assert.deepEqual((await Template.getTags(RUN)).map((t) => t.tag).sort(), ['prod', 'v1', 'v2'])
})
check('kill', async () => assert.equal(await sandbox.kill(), true))
await runAll()
