// bench/sdk.mjs: times the unmodified JS SDK. Usage: sdk.mjs MODULE create|exec COUNT. One line of milliseconds each.
// create: Sandbox.create and its first commands.run('true'); the kill is not timed. exec: commands.run('true') on one.
const [, , path, mode, count] = process.argv
const { Sandbox } = await import(path)

async function createAndRun() {
  const began = performance.now()
  const sandbox = await Sandbox.create('host')
  await sandbox.commands.run('true')
  const took = performance.now() - began
  await sandbox.kill()
  return took
}

const modes = {
  async create(times) {
    await createAndRun() // the module's own first-use cost
    for (let i = 0; i < times; i++) console.log(await createAndRun())
  },
  async exec(times) {
    const sandbox = await Sandbox.create('host')
    await sandbox.commands.run('true')
    for (let i = 0; i < times; i++) {
      const began = performance.now()
      await sandbox.commands.run('true')
      console.log(performance.now() - began)
    }
    await sandbox.kill()
  },
}
await modes[mode](Number(count))
