import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { protocolFor } from './index.ts'

/** The content type, none where undefined, and the body. */
let answer: { readonly type?: string; readonly body: string | Buffer }
let server: Server
let url: string
beforeAll(async () => {
  server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (answer.type !== undefined) response.setHeader('content-type', answer.type)
      response.end(answer.body)
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/speak`
})
afterAll(() => server.close())

const wav = Buffer.concat([Buffer.from('RIFF'), Buffer.from([0, 255, 1, 2]), Buffer.from('WAVE')])
const signal = AbortSignal.timeout(20_000)
const generated = { kind: 'generated', seed: 1, count: 2 } as const
const prepare = (protocol = protocolFor('json')) => protocol.prepare(url, 'm', generated, signal)

test.each([
  ['audio', 'audio/wav', wav, null],
  ['a picture', 'image/png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1]), null],
  ['bytes', 'application/octet-stream', wav, null],
  ['plain text', 'text/plain; charset=utf-8', 'positive\n', 'positive\n'],
  ['a text that Flask says is HTML', 'text/html; charset=utf-8', 'positive', 'positive'],
  ['XML', 'application/xml', '<?xml version="1.0"?><a/>', '<?xml version="1.0"?><a/>'],
  ['JSON that is said to be HTML', 'text/html', '{"label": "spam"}', { label: 'spam' }],
])('an answer may be %s', async (_, type, body, document) => {
  answer = { type, body }
  const { findFault, bodies } = await prepare()
  const bytes = Buffer.from(body)
  expect(findFault!(bodies[0]!, bytes)).toBeUndefined()
  expect(findFault!(bodies[0]!, Buffer.alloc(0))).toBe('with an empty body')
  const { answerClient } = protocolFor('json')
  expect((await answerClient!.parse(bytes)).document).toEqual(document)
})

test.each([
  ['an empty one', 'audio/wav', '', 'with an empty body'],
  ['an empty one of JSON', 'application/json', '', 'with an empty body'],
  ['a page', 'text/html', '<!DOCTYPE html><html></html>', 'not with JSON'],
  ['a text that is said to be JSON', 'application/json', 'positive', 'not with JSON'],
  ['a text of no type', undefined, 'positive', 'not with JSON'],
  ['an error', 'text/plain', '{"error": "no voice"}', 'with the error "no voice"'],
])('%s is no answer', async (_, type, body, words) => {
  answer = { type, body }
  await expect(prepare()).rejects.toThrow(words)
})

test('a text instead of audio is found under load, and the expected string is checked', async () => {
  answer = { type: 'audio/wav', body: wav }
  const { findFault, bodies } = await prepare()
  expect(findFault!(bodies[0]!, Buffer.from('busy'))).toBe(
    'with a text, and with audio/wav at first',
  )
  answer = { type: 'text/plain', body: 'spam' }
  await expect(prepare(protocolFor('json', { expect: 'label' }))).rejects.toThrow("without 'label'")
})
