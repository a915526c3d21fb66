// What the three stages share: a JSON server, and calls to other stages.
import { createServer } from 'node:http'

/** Answers POST on one path by `handle(document)`, and GET by 200. */
export function serve(port, path, handle) {
  createServer(async (request, response) => {
    const send = (status, answer) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    if (request.method === 'GET') return send(200, { ready: true })
    let body = ''
    for await (const chunk of request) body += chunk
    if (request.url !== path) return send(404, { error: `POST ${path}` })
    try {
      send(200, await handle(JSON.parse(body)))
    } catch (error) {
      send(500, { error: error.message })
    }
  }).listen(Number(port), '127.0.0.1')
}

export async function call(url, path, document) {
  const response = await fetch(url + path, { method: 'POST', body: JSON.stringify(document) })
  if (!response.ok) throw new Error(`${path} answered ${response.status}`)
  return response.json()
}
