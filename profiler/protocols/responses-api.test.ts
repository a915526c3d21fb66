/**
 * The Responses API over the wire: what is asked for, what of its events is a token, and how an
 * answer ends.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TokenStream } from '../load/token-stream.ts'
import { protocolFor } from './index.ts'

const { signal } = new AbortController()
const prompts = {
  inputTokens: { kind: 'fixed', tokens: 30 },
  outputTokens: { kind: 'fixed', tokens: 12 },
} as const
const generated = { kind: 'generated', seed: 1, count: 4, prompts } as const

type Event = readonly [type: string, more?: object]
/** As servers write them: the type stands before the data too. */
const eventsOf = (...events: readonly Event[]): string =>
  events
    .map(
      ([type, more], i) =>
        `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: i, ...more })}\n\n`,
    )
    .join('')
const begin: readonly Event[] = [
  ['response.created', { response: { id: 'r', model: 'm', status: 'in_progress', output: [] } }],
  ['response.in_progress', { response: { id: 'r', model: 'm', status: 'in_progress' } }],
  [
    'response.output_item.added',
    { output_index: 0, item: { type: 'message', role: 'assistant', content: [] } },
  ],
  ['response.content_part.added', { part: { type: 'output_text', text: '' } }],
]
const text = (delta: string, logprobs: readonly object[] = []): Event => [
  'response.output_text.delta',
  { delta, logprobs },
]
const ended = (type: string, usage: object, more: object = {}): Event => [
  type,
  { response: { model: 'm', usage, ...more } },
]
const usage = (tokens: number, reasoning = 0) => ({
  input_tokens: 34,
  output_tokens: tokens,
  output_tokens_details: { reasoning_tokens: reasoning },
})

/** Each event so many ms after the one before. */
function read(...events: readonly Event[]): TokenStream {
  const stream = new TokenStream()
  for (const [i, event] of events.entries()) stream.push(Buffer.from(eventsOf(event)), 10 * (i + 1))
  return stream
}

describe('events', () => {
  test('tokens start at the first delta, and usage counts them', () => {
    const {
      failure,
      text: said,
      times,
    } = read(...begin, text('a b'), text('c'), ended('response.completed', usage(3)))
    expect(failure).toBeUndefined()
    expect(said).toBe('a bc')
    // The token that ends it is counted, and has no delta.
    expect(times).toMatchObject({
      firstTokenMs: 50,
      lastTokenMs: 70,
      tokens: 3,
      inputTokens: 34,
      gapsMs: [10, 10],
    })
  })

  test('streamed reasoning, refusals and tool arguments are tokens; repetitions are not', () => {
    const { times, failure } = read(
      ...begin,
      ['response.reasoning_text.delta', { delta: 'hm' }],
      ['response.reasoning_text.done', { text: 'hm' }],
      ['response.function_call_arguments.delta', { delta: '{"x":' }],
      ['response.refusal.delta', { delta: 'no' }],
      ['response.output_text.done', { text: 'all of it' }],
      ended('response.completed', usage(3, 1)),
    )
    expect(failure).toBeUndefined()
    expect(times).toMatchObject({ firstTokenMs: 50, tokens: 3 })
    expect(times!.hiddenTokens).toBeUndefined()
  })

  test('reasoning that is only counted precedes the first token', () => {
    const { times } = read(...begin, text('a'), text('b'), ended('response.completed', usage(7, 5)))
    expect(times).toMatchObject({ tokens: 7, hiddenTokens: 5 })
  })

  test('log probabilities say how many tokens a delta carries', () => {
    const { times } = read(
      ...begin,
      text('a b c', [{}, {}, {}]),
      text('d', [{}]),
      ended('response.completed', {}),
    )
    expect(times).toMatchObject({ tokens: 4, gapsMs: [10] })
  })

  test.each([
    [
      'at the length that was asked for',
      undefined,
      ended('response.incomplete', usage(1), {
        incomplete_details: { reason: 'max_output_tokens' },
      }),
    ],
    ['cut off', 'cut stream', undefined],
    [
      'failed',
      'error in stream',
      ended('response.failed', {}, { error: { code: 'server_error' } }),
    ],
    ['with an error', 'error in stream', ['error', { code: 'x', message: 'no memory' }] as Event],
    ['given up', 'aborted', ended('response.cancelled', {})],
  ])('an answer that ends %s', (_, fault, last) => {
    expect(read(...begin, text('a'), ...(last ? [last] : [])).failure).toBe(fault)
  })
})

describe('over the wire', () => {
  let server: Server
  let url: string
  let bodies: Record<string, unknown>[]
  let behave: (response: ServerResponse) => unknown
  beforeEach(async () => {
    bodies = []
    server = createServer(async (request, response) => {
      let body = ''
      for await (const part of request) body += part
      if (request.method === 'GET') return response.writeHead(404).end()
      bodies.push({ ...JSON.parse(body), path: request.url })
      return behave(response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterEach(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const speaking = protocolFor('openai', { path: '/v1/responses' })

  test('gets requests in its own format', async () => {
    behave = (response) =>
      response.end(eventsOf(...begin, text('x'), ended('response.completed', usage(1))))
    const target = await speaking.prepare(url, 'm', generated, signal)
    expect(target).toMatchObject({ transport: 'sse', path: '/v1/responses' })
    const { input, ...asked } = bodies[0]!
    expect(asked).toEqual({
      path: '/v1/responses',
      model: 'm',
      max_output_tokens: 12,
      store: false,
      temperature: 0,
      ignore_eos: true,
      stream: true,
    })
    expect(input).toMatchObject([
      { role: 'user', content: expect.stringMatching(/^(\S+ ){29}\S+$/) },
    ])
  })

  test('more tokens than requested, or another model, is a fault', async () => {
    behave = (response) =>
      response.end(eventsOf(...begin, text('x'), ended('response.completed', usage(500))))
    await expect(speaking.prepare(url, 'm', generated, signal)).rejects.toThrow(
      /500 tokens in a text of 1 bytes, although at most 12 were requested/,
    )
    behave = (response) =>
      response.end(eventsOf(...begin, text('x'), ended('response.completed', usage(1))))
    await expect(speaking.prepare(url, 'other', generated, signal)).rejects.toThrow(
      "from the model 'm', not 'other'",
    )
  })
})
