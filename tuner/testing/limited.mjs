// A server that starts in a second, serves as many requests at once as its limit says, each for 20
// ms, and takes another limit while it runs (PUT /limit/N).
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [, , port, startsFile] = process.argv
appendFileSync(startsFile, `${process.pid}\n`)
let limit = 1
let running = 0
const waiting = []
const next = () => {
  while (running < limit && waiting.length > 0) {
    const answer = waiting.shift()
    running += 1
    setTimeout(() => {
      running -= 1
      answer()
      next()
    }, 20)
  }
}
const server = createServer((request, response) => {
  const [, asked] = /^\/limit\/(\d+)$/.exec(request.url) ?? []
  if (asked !== undefined) limit = Number(asked)
  request.resume()
  if (request.method !== 'POST') return response.end('ok')
  request.on('end', () => {
    waiting.push(() => response.end('{"y": 1}'))
    next()
  })
})
setTimeout(() => server.listen(Number(port), '127.0.0.1'), 1000)
