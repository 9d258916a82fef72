// tests/compat/js/errors.mjs: each class of error that the SDK has, provoked by an answer of ours.
import assert from 'node:assert/strict'
import { check, isCheck, refused, until } from './checks.mjs'

// Classes that no answer of ours becomes, and why.
const NOT_SENT = {
  SecretNotFoundError: 'there are no secrets: 501, SecretError',
  VolumeNotFoundError: 'there are no volumes: 501, VolumeError',
  VolumePathNotFoundError: 'there are no volumes: 501, VolumeError',
}
// Classes that another program provokes.
const OTHER_PROGRAM = { FileUploadError: 'template.mjs' }
// Classes that other checks of this program provoke.
const ELSEWHERE = {
  AuthenticationError: 'run_unknown_user', CommandExitError: 'run_exit_code', InvalidArgumentError: 'run_cwd_missing',
  NotFoundError: 'commands_connect_unknown', SandboxError: 'sandbox_unknown_template', SandboxNotFoundError: 'sandbox_connect_unknown',
  TimeoutError: 'run_timeout', GitAuthError: 'git_credentials', GitUpstreamError: 'git_remotes',
}

/** Adds the checks; @box gives the sandbox once there is one. */
export function addErrors(sdk, box, template) {
  const { Template, Volume, Secret } = sdk
  const provoked = {
    FileNotFoundError: () => refused(box().files.read('nosuch'), sdk.FileNotFoundError, /nosuch/),
    RateLimitError: () => refused(box().files.list('/usr', { depth: 60 }), sdk.RateLimitError, /100000 entries/),
    NotEnoughSpaceError: async () => {
      await box().commands.run('head -c 1G /dev/zero > /dev/shm/full 2>/dev/null; true')
      await refused(box().files.write('/dev/shm/more', 'x'.repeat(100_000)), sdk.NotEnoughSpaceError)
      await box().commands.run('rm /dev/shm/full')
    },
    ServiceBusyError: async () => {
      const other = await sdk.Sandbox.create(template)
      try {
        await other.commands.run("setsid sh -c 'sleep 0.3; pkill -STOP -x envd' >/dev/null 2>&1 &", { user: 'root' })
        await until(async () => !(await other.isRunning({ requestTimeoutMs: 1000 }).catch(() => false)), 'envd stands still', 15_000)
        await refused(other.getMetrics(), sdk.ServiceBusyError, /does not tell its metrics/)
      } finally {
        await other.kill()
      }
    },
    TemplateError: () => refused(Template.getTags('nosuch'), sdk.TemplateError, /404/),
    BuildError: () => refused(Template.getBuildStatus({ templateId: 'nosuch', buildId: 'nosuch' }), sdk.BuildError, /404/),
    VolumeError: () => refused(Volume.create('v'), sdk.VolumeError, /501.*not built/),
    SecretError: () => refused(Secret.create('s', 'v'), sdk.SecretError, /501.*not built/),
  }
  const there = Object.keys(sdk).filter((name) => name.endsWith('Error'))
  for (const [name, provoke] of Object.entries(provoked)) {
    if (there.includes(name)) check(`error_${name}`, provoke)
  }
  check('what_is_not_built_says_so', async () => {
    for (const name of ['pause', 'betaPause', 'createSnapshot', 'fork']) {
      if (box()[name]) await refused(box()[name](), sdk.SandboxError, /501.*not built/)
    }
    await refused(box().listSnapshots().nextItems(), sdk.SandboxError, /501.*not built/)
    await refused(box().updateNetwork({ allowOut: ['192.0.2.1'] }), sdk.SandboxError, /501.*no egress/)
  })
  check('every_error_class_has_a_check', () => {
    assert.ok(there.length >= 15, `${there.length} classes`)
    const known = { ...provoked, ...ELSEWHERE, ...NOT_SENT, ...OTHER_PROGRAM }
    assert.deepEqual(there.filter((name) => !(name in known)), [])
    assert.deepEqual(Object.values(ELSEWHERE).filter((name) => !isCheck(name)), [])
  })
}
