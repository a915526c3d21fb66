// Plain JSON: the length of a text, as a score and a label, one after the other, 2 ms each. BATCH 4
// answers wrongly, 8 wrongly once it is busy; ids and times are new each time.
import { createServer } from 'node:http'

const batch = Number(process.env.BATCH)
let underWay = 0
let freeAtMs = 0
createServer((request, response) => {
  if (request.url === '/healthz') return response.end()
  // Who comes before it listens asks a little later whether there is such a path.
  if (request.method !== 'POST') {
    response.statusCode = 405
    return response.end()
  }
  let body = ''
  request.on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    underWay++
    const { length } = JSON.parse(body).text
    const wrong = batch === 4 || (batch === 8 && underWay > 9)
    freeAtMs = Math.max(freeAtMs, performance.now()) + 2
    setTimeout(() => {
      underWay--
      const score = length / 100 + (wrong ? 0.5 : 0)
      const time = Math.floor(Date.now() / 1000)
      response.end(JSON.stringify({ ref: Math.random(), made: time, pid: process.pid, batch, label: length > 150 ? 'long' : 'short', score }))
    }, freeAtMs - performance.now())
  })
}).listen(Number(process.env.PORT), '127.0.0.1')
