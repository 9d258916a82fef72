// tests/compat/js/checks.mjs: a list of named checks with a hang guard each; prints them and the sum.
import assert from 'node:assert/strict'

const GUARD_MS = 60_000
const rows = []

/** Adds a check; they run in the order of adding. */
export const check = (name, run) => rows.push({ name, run })

/** Whether a check of that name was added. */
export const isCheck = (name) => rows.some((row) => row.name === name)

/** Awaits a rejection with an error of @class (a constructor) whose text matches @pattern; returns it. */
export async function refused(promise, errorClass, pattern = /./) {
  let value
  try {
    value = await promise
  } catch (error) {
    assert.ok(error instanceof errorClass, `${error.constructor.name} (${error.message}) is no ${errorClass.name}`)
    assert.match(`${error.message} ${error.stderr ?? ''}`, pattern)
    return error
  }
  assert.fail(`expected ${errorClass.name}, got ${JSON.stringify(value)}`)
}

/** Polls until @test gives true, for at most @ms. */
export async function until(test, what, ms = 10_000) {
  const ends = Date.now() + ms
  while (!(await test())) {
    assert.ok(Date.now() < ends, `${what}: not within ${ms} ms`)
    await new Promise((done) => setTimeout(done, 50))
  }
}

function guarded(run) {
  let timer
  const guard = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`hung for ${GUARD_MS} ms`)), GUARD_MS)
  })
  return Promise.race([run(), guard]).finally(() => clearTimeout(timer))
}

/** Runs all checks, or those named in ABX_ONLY (comma-separated), and ends the process. */
export async function runAll() {
  const only = process.env.ABX_ONLY?.split(',')
  let passed = 0
  let failed = 0
  for (const { name, run } of rows) {
    if (only && name !== 'create' && !only.includes(name)) continue
    const began = Date.now()
    try {
      await guarded(run)
      passed++
      console.log(`ok ${name} (${Date.now() - began} ms)`)
    } catch (error) {
      failed++
      const where = error.stack?.split('\n').find((l) => /(sdk|git|errors)\.mjs/.test(l))?.trim() ?? ''
      console.log(`not ok ${name}: ${error.constructor.name}: ${error.message.slice(0, 600)} ${where}`)
    }
  }
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed || !passed ? 1 : 0)
}
