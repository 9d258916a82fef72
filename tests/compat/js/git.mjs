// tests/compat/js/git.mjs: the Git class of the SDK, on repositories within one sandbox.
import assert from 'node:assert/strict'
import { check, refused, until } from './checks.mjs'

const REFUSING = `import http.server as h
class R(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm=x'); self.send_header('Content-Length', '0'); self.end_headers()
h.HTTPServer(('127.0.0.1', 8401), R).serve_forever()`

/** Adds the checks; @box gives the sandbox once there is one. Returns which checks drive which method. */
export function addGit({ GitAuthError, GitUpstreamError, InvalidArgumentError }, box) {
  const git = () => box().git
  const output = async (text) => (await box().commands.run(text)).stdout.trim()

  check('git_commit', async () => {
    await git().init('work', { initialBranch: 'main' })
    await git().configureUser('A Name', 'a@example.test', { scope: 'global' })
    await box().files.write('work/a.txt', 'one\n')
    const before = await git().status('work')
    assert.deepEqual(before.fileStatus.map((f) => [f.name, f.status]), [['a.txt', 'untracked']])
    await git().add('work', { files: ['a.txt'] })
    await git().commit('work', 'first é', { authorName: 'B', authorEmail: 'b@example.test' })
    assert.equal((await git().status('work')).currentBranch, 'main')
    assert.equal(await output('git -C work log -1 --format="%s %an %cn"'), 'first é B B')
  })
  check('git_branches', async () => {
    await git().createBranch('work', 'side')
    await git().checkoutBranch('work', 'main')
    const { branches, currentBranch } = await git().branches('work')
    assert.deepEqual([branches.toSorted(), currentBranch], [['main', 'side'], 'main'])
    await git().deleteBranch('work', 'side', { force: true })
    assert.deepEqual((await git().branches('work')).branches, ['main'])
  })
  check('git_reset_and_restore', async () => {
    await box().files.write('work/a.txt', 'two\n')
    await git().restore('work', { paths: ['a.txt'] })
    assert.equal(await output('cat work/a.txt'), 'one')
    await box().files.write('work/a.txt', 'three\n')
    await git().add('work')
    await git().reset('work', { mode: 'hard', target: 'HEAD' })
    assert.equal(await output('cat work/a.txt'), 'one')
  })
  check('git_config', async () => {
    await git().setConfig('abx.test', 'a value', { scope: 'local', path: 'work' })
    assert.equal(await git().getConfig('abx.test', { scope: 'local', path: 'work' }), 'a value')
    await refused(git().setConfig('abx.test', 'x', { scope: 'nowhere' }), InvalidArgumentError)
  })
  check('git_remotes', async () => {
    await git().init('bare.git', { bare: true, initialBranch: 'main' })
    await refused(git().pull('work'), GitUpstreamError)
    await git().remoteAdd('work', 'origin', '/home/user/bare.git')
    assert.equal(await git().remoteGet('work', 'origin'), '/home/user/bare.git')
    await git().push('work', { remote: 'origin', branch: 'main', setUpstream: true })
    await git().clone('/home/user/bare.git', { path: 'copy', branch: 'main' })
    assert.equal(await output('cat copy/a.txt'), 'one')
    await box().files.write('work/b.txt', 'b\n')
    await git().add('work')
    await git().commit('work', 'second')
    await git().push('work')
    await git().pull('copy')
    assert.equal(await output('cat copy/b.txt'), 'b')
  })
  check('git_credentials', async () => {
    await box().files.write('refusing.py', REFUSING)
    const server = await box().commands.run('python3 refusing.py', { background: true })
    await until(async () => (await output('(: < /dev/tcp/127.0.0.1/8401) 2>/dev/null && echo up || true')) === 'up', 'it listens')
    await refused(git().clone('http://127.0.0.1:8401/x.git', { path: 'refused' }), GitAuthError)
    await server.kill()
    await git().dangerouslyAuthenticate({ username: 'me', password: 'secret', host: 'git.example.test' })
    assert.equal(await output('cat ~/.git-credentials'), 'https://me:secret@git.example.test')
  })

  return { init: ['git_commit'], configureUser: ['git_commit'], status: ['git_commit'], add: ['git_commit'], commit: ['git_commit'],
    branches: ['git_branches'], createBranch: ['git_branches'], checkoutBranch: ['git_branches'], deleteBranch: ['git_branches'],
    reset: ['git_reset_and_restore'], restore: ['git_reset_and_restore'], setConfig: ['git_config'], getConfig: ['git_config'],
    remoteAdd: ['git_remotes'], remoteGet: ['git_remotes'], push: ['git_remotes'], pull: ['git_remotes'], clone: ['git_remotes'],
    dangerouslyAuthenticate: ['git_credentials'],
    // not public
    runGit: null, runShell: null, getRemoteUrl: null, resolveRemoteName: null, withRemoteCredentials: null, hasUpstream: null }
}
