// bench/sdk_floor.mjs: answers what bench/sdk.mjs asks for at once and does nothing: what is left of its figures is the
// SDK's own. Prints its port. The requests are read to their end, as a server does.
import { createServer } from 'node:http'

const frame = (flags, message) => {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}
const ran = Buffer.concat([frame(0, { event: { start: { pid: 1 } } }),
  frame(0, { event: { end: { exited: true, status: 'exit status 0' } } }), frame(2, {})])
const made = JSON.stringify({ sandboxID: 'i00000000000000000000', templateID: 'host', clientID: 'x', envdVersion: '0.5.7',
  envdAccessToken: 'x' })
const answers = [
  ['POST /process.Process/Start', 200, 'application/connect+json', ran],
  ['POST /v2/sandboxes', 201, 'application/json', made],
  ['POST /sandboxes', 201, 'application/json', made],
  ['DELETE /', 204, 'text/plain', ''],
]

createServer((request, response) => {
  const asked = `${request.method} ${request.url}`
  const [, status, type, body] = answers.find(([start]) => asked.startsWith(start)) ?? ['', 404, 'text/plain', asked]
  request.resume().on('end', () => response.writeHead(status, { 'Content-Type': type }).end(body))
}).listen(0, '127.0.0.1', function () { console.log(this.address().port) })
