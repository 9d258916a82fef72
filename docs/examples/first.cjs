// docs/examples/first.cjs: the E2B SDK as published; eval "$(abx env)" tells it where the engine is.
const { Sandbox } = require('e2b')

async function main() {
  const sandbox = await Sandbox.create('host')
  const result = await sandbox.commands.run('echo hi from $(id -un)', {
    onStdout: (chunk) => process.stdout.write(chunk),
  })
  await sandbox.files.write('note.txt', 'kept in the sandbox')
  console.log(await sandbox.files.read('note.txt'), '- exit code', result.exitCode)
  await sandbox.kill()
}

main()
