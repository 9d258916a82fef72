// tests/compat/js/interpreter.mjs SDK-ENTRY [TEMPLATE]: @e2b/code-interpreter, unmodified, against the engine that the
// environment names: every method that talks to the interpreter.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'
import { check, isCheck, refused, runAll, until } from './checks.mjs'

const sdk = await import(pathToFileURL(process.argv[2]))
const { Sandbox, TimeoutError, InvalidArgumentError, NotFoundError, SandboxError } = sdk
const template = process.argv[3] ?? 'host'
const HOME = '/home/user'
let sandbox

const text = async (code, options) => {
  const execution = await sandbox.runCode(code, options)
  assert.equal(execution.error, undefined, JSON.stringify(execution.error))
  return execution.text
}

check('create', async () => {
  sandbox = await Sandbox.create(template, {
    envs: { TEST_ENV_VAR: 'supertest' }, secure: true, network: { allowPublicTraffic: false } })
})
check('its_ports_want_the_traffic_token', async () => {
  const status = async (more) => (await fetch(`${process.env.E2B_SANDBOX_URL}/contexts`, {
    headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49999', ...more } })).status
  const token = 'E2B-Traffic-Access-Token'
  assert.deepEqual([await status({}), await status({ [token]: 'guess' }), await status({ [token]: sandbox.trafficAccessToken })],
    [403, 403, 200])
})
check('first_run', async () => {
  const execution = await sandbox.runCode('x =1; x')
  assert.deepEqual([execution.text, execution.results.length, execution.executionCount], ['1', 1, 1])
})
check('state', async () => {
  await text('x = 1')
  assert.equal(await text('x += 1; x'), '2')
})
check('error', async () => {
  const seen = []
  const execution = await sandbox.runCode('xyz', { onError: (e) => seen.push(e) })
  assert.deepEqual([execution.error.name, execution.error.value], ['NameError', "name 'xyz' is not defined"])
  assert.match(execution.error.traceback, /NameError/)
  assert.equal(seen.length, 1)
  assert.equal(execution.results.length, 0)
})
check('callbacks', async () => {
  const out = [], err = [], results = []
  const execution = await sandbox.runCode('import sys\nprint("hello")\nprint("m", file=sys.stderr)\n5', {
    onStdout: (m) => out.push(m.line), onStderr: (m) => err.push(m.line), onResult: (r) => results.push(r.text) })
  assert.deepEqual([out, err, results], [['hello\n'], ['m\n'], ['5']])
  assert.deepEqual([execution.logs.stdout, execution.logs.stderr], [['hello\n'], ['m\n']])
})
check('streaming', async () => {
  const times = []
  await sandbox.runCode('import time\nfor n in range(3):\n    print(n)\n    time.sleep(0.4)', { onStdout: () => times.push(Date.now()) })
  assert.equal(times.length, 3)
  assert.ok(times[2] - times[0] > 500, times)
})
check('shell_escape', async () => {
  const execution = await sandbox.runCode('!pwd')
  assert.equal(execution.logs.stdout.join('').trim(), HOME)
})
check('unicode', async () => {
  const execution = await sandbox.runCode('print("h\u00e9\u2028\ud83d\ude00" * 3000)')
  assert.equal(execution.logs.stdout.join(''), 'h\u00e9\u2028\ud83d\ude00'.repeat(3000) + '\n')
})
check('envs', async () => {
  const code = 'import os; os.getenv("TEST_ENV_VAR")'
  assert.equal(await text(code), 'supertest')
  assert.equal(await text(code, { envs: { TEST_ENV_VAR: 'overwrite' } }), 'overwrite')
  assert.equal(await text(code), 'supertest')
})
check('javascript', async () => {
  assert.equal(await text('process.cwd()', { language: 'js' }), HOME)
  assert.equal(await text("await Promise.resolve('Hello World!')", { language: 'javascript' }), 'Hello World!')
  const execution = await sandbox.runCode('console.log("Hello World!")', { language: 'js' })
  assert.deepEqual(execution.logs.stdout, ['Hello World!\n'])
})
check('typescript', async () => {
  const execution = await sandbox.runCode('const message: string = "Hello World!"; console.log(message)', { language: 'ts' })
  assert.deepEqual([execution.error, execution.logs.stdout], [undefined, ['Hello World!\n']])
})
check('bash', async () => {
  assert.equal((await sandbox.runCode('pwd', { language: 'bash' })).logs.stdout.join('').trim(), HOME)
  assert.deepEqual((await sandbox.runCode('echo $FOO', { language: 'bash', envs: { FOO: 'bar' } })).logs.stdout, ['bar\n'])
  assert.deepEqual((await sandbox.runCode('echo ${FOO:-default}', { language: 'bash' })).logs.stdout, ['default\n'])
})
check('no_r_and_java', async () => {
  await refused(sandbox.runCode('1', { language: 'r' }), SandboxError, /501/)
  await refused(sandbox.createCodeContext({ language: 'java' }), SandboxError, /501/)
})
check('contexts', async () => {
  await text('only_here = 1')
  const context = await sandbox.createCodeContext({ cwd: '/usr', language: 'python' })
  assert.deepEqual([context.language, context.cwd], ['python', '/usr'])
  const listed = await sandbox.listCodeContexts()
  assert.deepEqual(listed.at(-1), context)
  assert.deepEqual(listed.slice(0, 2).map((c) => c.language), ['python', 'javascript'])
  assert.equal((await sandbox.runCode('only_here', { context })).error.value, "name 'only_here' is not defined")
  assert.equal(await text('import os; y = 5; os.getcwd()', { context }), '/usr')
  await sandbox.restartCodeContext(context)
  const after = await sandbox.runCode('y', { context })
  assert.deepEqual([after.error.value, after.executionCount], ["name 'y' is not defined", 1])
  await sandbox.removeCodeContext(context.id)
  assert.equal((await sandbox.listCodeContexts()).some((c) => c.id === context.id), false)
  await refused(sandbox.runCode('1', { context }), NotFoundError, /not found/)
  await refused(sandbox.removeCodeContext(context), NotFoundError)
})
check('default_context', async () => {
  const context = await sandbox.createCodeContext()
  assert.deepEqual([context.language, context.cwd], ['python', HOME])
  await sandbox.removeCodeContext(context)
})
check('bad_folder', async () => {
  await refused(sandbox.createCodeContext({ cwd: '/no/such/folder' }), SandboxError, /500/)
})
check('context_and_language', async () => {
  const context = await sandbox.createCodeContext({ language: 'bash' })
  await refused(sandbox.runCode('1', { context, language: 'python' }), InvalidArgumentError)
  await sandbox.removeCodeContext(context)
})
check('timeout_interrupts', async () => {
  await refused(sandbox.runCode('import time; time.sleep(300)', { timeoutMs: 2000 }), TimeoutError)
  assert.equal(await text('1 + 1', { timeoutMs: 10_000 }), '2')
  assert.equal(await text('x'), '2')
})
check('large_output', async () => {
  const execution = await sandbox.runCode("display({'image/png': 'A' * (5 << 20)}, raw=True)")
  assert.equal(execution.results[0].png.length, 5 << 20)
})
check('formats', async () => {
  const execution = await sandbox.runCode("display({'text/latex': r'\\text{x}'}, raw=True)")
  assert.deepEqual(execution.results[0].formats(), ['latex'])
  assert.equal((await sandbox.runCode("{'a': 1}")).results[0].json.a, 1)
})
check('connect', async () => {
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.runCode('x')).text, '2')
})
if (template === 'code-interpreter-v1') {
  check('default_template', async () => {
    const made = await Sandbox.create()
    assert.equal((await made.runCode('6*7')).text, '42')
    await made.kill()
  })
  check('data_frame', async () => {
    const execution = await sandbox.runCode('    import pandas as pd\n    pd.DataFrame({"a": [1, 2, 3]})')
    assert.deepEqual(execution.results[0].data, { a: [1, 2, 3] })
    assert.ok(execution.results[0].html)
  })
  check('chart', async () => {
    const execution = await sandbox.runCode('import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label="l")\n' +
      'plt.title("T")\nplt.xlabel("Time (s)")\nplt.show()')
    const [result] = execution.results
    assert.ok(result.png && result.text)
    assert.deepEqual([result.extra, result.chart.type, result.chart.title, result.chart.x_unit], [{}, 'line', 'T', 's'])
    assert.deepEqual(result.chart.elements, [{ label: 'l', points: [[1, 3], [2, 4]] }])
  })
}
check('killed_while_running', async () => {
  const made = await Sandbox.create(template)
  const running = made.runCode('import time; time.sleep(60)')
  running.catch(() => {})
  await new Promise((done) => setTimeout(done, 2000))
  await made.kill()
  await refused(running, TimeoutError, /killed/)
})
// Which checks drive what the package adds to the SDK; null: asks nothing.
const methods = {
  runCode: 'first_run', createCodeContext: 'contexts', listCodeContexts: 'contexts', removeCodeContext: 'contexts',
  restartCodeContext: 'contexts', constructor: null, jupyterUrl: null, getJupyterRequestUrl: null, includeDiagnostics: null,
  handleRequestError: null,
}
check('every_method_has_a_check', () => {
  const there = Object.getOwnPropertyNames(Sandbox.prototype).filter((name) => !name.startsWith('_'))
  assert.ok(there.length >= 6, `${there}`)
  assert.deepEqual(there.filter((name) => !(name in methods)), [])
  assert.deepEqual(Object.values(methods).filter((name) => name && !isCheck(name)), [])
})
check('kill', async () => {
  await sandbox.kill()
  await until(async () => !(await sandbox.isRunning()), 'the sandbox is gone')
})

await runAll()
