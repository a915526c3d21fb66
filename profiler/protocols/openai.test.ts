import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { judgeWindow } from '../capacity/rederive/window-under-slo.ts'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import type { Load } from '../model/load.ts'
import { meetsSlo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { createUniform } from '../seeded-random.ts'
import { protocolFor } from './index.ts'
import { drawLength, makePrompts } from './prompts.ts'

const { signal } = new AbortController()
const generated = { kind: 'generated', seed: 1, count: 4 } as const
const generator = new HttpLoadGenerator()
afterAll(() => generator.close())

type Behaviour = (response: ServerResponse, body: Record<string, unknown>) => unknown
let server: Server
let url: string
let bodies: Record<string, unknown>[]
let behave: Behaviour
let models: readonly object[] | undefined
/** What is answered to questions about the server, by path; a status where it is a number. */
let told: Readonly<Record<string, object | number>>
const chunk = (content: string, finish: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
/** First token after 30 ms, then one every 10 ms, each event in two pieces. */
const steady: Behaviour = async (response) => {
  await wait(30)
  for (let i = 0; i < 6; i++) {
    const text = chunk('x', i === 5 ? 'length' : null)
    response.write(text.slice(0, 9))
    response.write(text.slice(9))
    await wait(10)
  }
  response.end('data: [DONE]\n\n')
}

beforeEach(async () => {
  bodies = []
  behave = steady
  models = undefined
  told = { '/health': 200 }
  server = createServer(async (request: IncomingMessage, response) => {
    let body = ''
    for await (const part of request) body += part
    const known = told[request.url!]
    if (typeof known === 'number') return response.writeHead(known).end()
    if (known !== undefined) return response.end(JSON.stringify(known))
    if (request.url === '/v1/models' && models)
      return response.end(JSON.stringify({ object: 'list', data: models }))
    if (request.method === 'GET') return response.writeHead(404).end()
    bodies.push(JSON.parse(body))
    return behave(response, bodies.at(-1)!)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(resolve))
})

describe('requests', () => {
  test('chat streams, requests usage, and has the drawn length', async () => {
    const prompts = {
      inputTokens: { kind: 'fixed', tokens: 30 },
      outputTokens: { kind: 'fixed', tokens: 12 },
    } as const
    const target = await protocolFor('openai').prepare(url, 'm', { ...generated, prompts }, signal)
    expect(target).toMatchObject({ transport: 'sse', path: '/v1/chat/completions' })
    expect(bodies[0]).toMatchObject({
      model: 'm',
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 12,
      ignore_eos: true,
    })
    const [message] = bodies[0]!.messages as { role: string; content: string }[]
    expect(message!.content.split(' ')).toHaveLength(30)
  })

  test('there are 2,048 different prompts by default, as repeated ones would be cached', async () => {
    const { bodies: made } = await protocolFor('openai').prepare(
      url,
      'm',
      { kind: 'generated', seed: 1 },
      signal,
    )
    expect(new Set(made.map(({ body }) => String(body))).size).toBe(2048)
  })

  test('a completions path gets prompts; bodies of a file are unchanged', async () => {
    await protocolFor('openai', { path: '/v1/completions' }).prepare(url, 'm', generated, signal)
    expect(bodies[0]).toMatchObject({ prompt: expect.any(String) })
    const folder = await mkdtemp(join(tmpdir(), 'openai-'))
    const path = join(folder, 'bodies.jsonl')
    await writeFile(
      path,
      '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":false}\n',
    )
    await protocolFor('openai').prepare(url, 'm', { kind: 'file', path }, signal)
    expect(bodies.at(-1)).toMatchObject({
      model: 'm',
      max_tokens: 3,
      stream: true,
      messages: [{ content: 'hi' }],
    })
    await writeFile(path, '{"text":"hi"}\n')
    await expect(
      protocolFor('openai').prepare(url, 'm', { kind: 'file', path }, signal),
    ).rejects.toThrow(/body 1: neither 'messages' nor 'prompt' nor 'input'/)
    await writeFile(path, '{"prompt":"hi","n":2}\n')
    await expect(
      protocolFor('openai').prepare(url, 'm', { kind: 'file', path }, signal),
    ).rejects.toThrow(/body 1: requests 2 answers at once/)
    await writeFile(path, '{"prompt":"hi","stream_options":null}\n')
    await protocolFor('openai').prepare(url, 'm', { kind: 'file', path }, signal)
    expect(bodies.at(-1)).toMatchObject({ stream: true, stream_options: null })
    await rm(folder, { recursive: true })
  })

  describe('a server that reports its context', () => {
    /**
     * Counts two tokens a word and ten of a template, and refuses what is longer than the context,
     * as vLLM does.
     */
    const context = 256
    const refuses: Behaviour = (response, { messages, max_tokens: most }) => {
      const [{ content }] = messages as [{ content: string }]
      const tokens = 2 * content.split(' ').length + 10
      if (tokens + Number(most) > context)
        return response.writeHead(400).end('{"error":{"message":"maximum context length is 256"}}')
      return response.end(
        `${chunk('x', 'length')}data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: tokens } })}\n\ndata: [DONE]\n\n`,
      )
    }
    const prompts = {
      inputTokens: { kind: 'uniform', from: 20, to: 400 },
      outputTokens: { kind: 'uniform', from: 5, to: 400 },
    } as const
    beforeEach(() => {
      behave = refuses
      models = [
        { id: 'other', max_model_len: 9 },
        { id: 'm', max_model_len: context },
      ]
    })

    test('gets only requests that fit, with a remark', async () => {
      const target = await protocolFor('openai').prepare(
        url,
        'm',
        { ...generated, count: 60, prompts },
        signal,
      )
      const asked = target.bodies.map(
        ({ body }) => JSON.parse(String(body)) as Record<string, unknown>,
      )
      for (const { messages, max_tokens: most } of asked) {
        const [{ content }] = messages as [{ content: string }]
        expect(2 * content.split(' ').length + 10 + Number(most)).toBeLessThanOrEqual(context)
      }
      expect(target.remarks).toEqual([
        expect.stringMatching(
          /^the server takes 256 tokens of prompt and answer together: \d\d of 60 requests were cut/,
        ),
      ])
    })

    test.each([
      [
        'of the model below an adapter (vLLM)',
        () =>
          (models = [
            { id: 'm', parent: 'b' },
            { id: 'b', max_model_len: context },
          ]),
      ],
      ['by /info (TGI)', () => (told = { '/info': { model_id: 'b', max_total_tokens: context } })],
      [
        'by /props (llama.cpp), of a place',
        () =>
          (told = {
            '/props': { default_generation_settings: { n_ctx: context }, total_slots: 4 },
          }),
      ],
    ])('may report it %s', async (_, tell) => {
      models = [{ id: 'm' }]
      tell()
      const target = await protocolFor('openai').prepare(
        url,
        'm',
        { ...generated, count: 60, prompts },
        signal,
      )
      expect(target.remarks?.[0]).toMatch(/^the server takes 256 tokens/)
    })

    test('gets the drawn lengths where they fit, without a remark', async () => {
      const short = {
        inputTokens: { kind: 'fixed', tokens: 20 },
        outputTokens: { kind: 'fixed', tokens: 30 },
      } as const
      const target = await protocolFor('openai').prepare(
        url,
        'm',
        { ...generated, prompts: short },
        signal,
      )
      expect(target.remarks).toBeUndefined()
      expect(bodies.at(-1)).toMatchObject({ max_tokens: 30 })
    })

    test('gets overlong prompts where they are kept', async () => {
      const long = {
        ...generated,
        keepOverlongPrompts: true,
        prompts: { ...prompts, inputTokens: { kind: 'fixed', tokens: 300 } },
      } as const
      await expect(protocolFor('openai').prepare(url, 'm', long, signal)).rejects.toThrow(
        /answered 400.*maximum context length is 256/,
      )
    })
  })

  test.each<[string, Behaviour, RegExp]>([
    [
      'an error',
      (response) => response.writeHead(400).end('{"error":{"message":"max context is 32"}}'),
      /answered 400.*max context is 32/,
    ],
    ['a cut stream', (response) => response.end(chunk('a')), /ends without \[DONE\]/],
    [
      'a whole answer',
      (response) => response.end('{"choices":[{"message":{"content":"a"}}]}'),
      /not with a stream/,
    ],
  ])('%s is a ProtocolError with the evidence', async (_, behaviour, message) => {
    behave = behaviour
    await expect(protocolFor('openai').prepare(url, 'm', generated, signal)).rejects.toThrow(
      message,
    )
  })

  test('ready by /health', async () => {
    expect(await protocolFor('openai').isReady(url, 'm', signal)).toBe(true)
    expect(await protocolFor('openai').isReady('http://127.0.0.1:1', 'm', signal)).toBe(false)
  })

  test('ready by its list of models where it has no /health, and not while /health says that it loads (llama.cpp, SGLang)', async () => {
    models = [{ id: 'm' }]
    told = {}
    expect(await protocolFor('openai').isReady(url, 'm', signal)).toBe(true)
    told = { '/health': 503 }
    expect(await protocolFor('openai').isReady(url, 'm', signal)).toBe(false)
  })

  describe('another model name in the answers', () => {
    const named = (model: string) =>
      `data: ${JSON.stringify({ model, choices: [{ delta: { content: 'a' }, finish_reason: 'stop' }] })}\n\n`
    beforeEach(() => {
      behave = (response) => response.end(named('org/behind'))
    })

    test('is an alias where the server lists the requested name, with a remark', async () => {
      models = [{ id: 'front' }]
      const { remarks, findFault, bodies } = await protocolFor('openai').prepare(
        url,
        'front',
        generated,
        signal,
      )
      expect(remarks).toEqual(["the server lists 'front', and answers as 'org/behind'"])
      expect(findFault!(bodies[0]!, Buffer.from(named('org/behind')))).toBeUndefined()
      expect(findFault!(bodies[0]!, Buffer.from(named('third')))).toBe(
        "from the model 'third', not 'front'",
      )
    })

    test('is another model where it does not, except for tgi', async () => {
      models = [{ id: 'org/behind' }]
      await expect(protocolFor('openai').prepare(url, 'front', generated, signal)).rejects.toThrow(
        "from the model 'org/behind', not 'front'",
      )
      await expect(
        protocolFor('openai').prepare(url, 'tgi', generated, signal),
      ).resolves.toBeDefined()
    })
  })

  test.each([
    ['/v1/embeddings', /does not answer with a stream/],
    ['/v2/rerank', /does not answer with a stream/],
  ])('%s does not stream, and gets no request', async (path, words) => {
    await expect(
      protocolFor('openai', { path }).prepare(url, 'm', generated, signal),
    ).rejects.toThrow(words)
    expect(bodies).toEqual([])
  })
})

describe('prompts', () => {
  test('lengths follow their distribution, and stay within bounds', () => {
    const uniform = createUniform(1)
    const draws = (distribution: Parameters<typeof drawLength>[0]) =>
      Array.from({ length: 4000 }, () => drawLength(distribution, uniform)).sort((a, b) => a - b)
    expect(draws({ kind: 'lognormal', median: 100, sigma: 0.5 })[2000]).toBeGreaterThan(95)
    expect(draws({ kind: 'lognormal', median: 100, sigma: 0.5 })[2000]).toBeLessThan(105)
    const even = draws({ kind: 'uniform', from: 10, to: 12 })
    expect(new Set(even)).toEqual(new Set([10, 11, 12]))
    expect(draws({ kind: 'normal', mean: 5, deviation: 20, maxTokens: 30 })).toEqual(
      expect.arrayContaining([1, 30]),
    )
    expect(draws({ kind: 'normal', mean: 5, deviation: 20, maxTokens: 30 }).at(-1)).toBe(30)
  })

  test('prefixes are shared in turn and counted in the length', () => {
    const spec = {
      inputTokens: { kind: 'fixed', tokens: 50 },
      outputTokens: { kind: 'fixed', tokens: 1 },
      sharedPrefixTokens: 40,
      prefixes: 2,
    } as const
    const texts = makePrompts(spec, 1, 4).map((prompt) => prompt.text.split(' '))
    expect(texts.every((words) => words.length === 50)).toBe(true)
    const head = (i: number) => texts[i]!.slice(0, 40).join(' ')
    expect(head(0)).toBe(head(2))
    expect(head(1)).toBe(head(3))
    expect(head(0)).not.toBe(head(1))
    expect(texts[0]).not.toEqual(texts[2])
  })
})

describe('load', () => {
  const slo = { percentile: 0.5, limitMs: 1000, maxErrorRate: 0.01 }
  const loads: Load[] = [
    { kind: 'closed', connections: 2, durationS: 0.6 },
    { kind: 'open', rateRps: 20, arrivals: { kind: 'constant' }, durationS: 0.6, seed: 1 },
  ]
  const target = (): Target => ({
    kind: 'http',
    transport: 'sse',
    url,
    path: '/v1/chat/completions',
    headers: {},
    bodies: [{ contentType: 'application/json', body: '{}' }],
    timeoutMs: 2000,
  })

  test.each(loads)(
    '$kind loop: every latency of a stream, and the SLO on any of them',
    async (load) => {
      const whole = await generator.run(target(), load, slo, signal)
      const { ttft, tpot, e2e, interToken } = whole.stream!
      expect(whole.errors).toBe(0)
      expect(ttft.p50Ms).toBeGreaterThan(29)
      expect(tpot.p50Ms).toBeGreaterThan(9)
      expect(e2e.p50Ms).toBeGreaterThan(ttft.p50Ms + 5 * 9)
      expect(interToken.requests).toBe(5 * whole.requests)
      expect(whole.sloMs).toBe(e2e.p50Ms)
      for (const metric of ['ttft', 'tpot'] as const) {
        const point = await generator.run(target(), load, { ...slo, metric }, signal)
        expect(point.sloMs).toBe(point.stream![metric].p50Ms)
      }
    },
  )

  const usage = `data: ${JSON.stringify({ choices: [], usage: { completion_tokens: 6 } })}\n\n`
  const done = 'data: [DONE]\n\n'
  test.each<[string, Behaviour]>([
    [
      'a whole answer in one chunk',
      (response) => response.end(chunk('one two three four five', 'stop') + done),
    ],
    [
      'the same, counted, its end later',
      async (response) => {
        response.write(chunk('one two three four five', 'stop'))
        await wait(20)
        response.end(usage + done)
      },
    ],
    [
      'all chunks at once, as a buffering gateway sends them',
      (response) => response.end(`${chunk('x').repeat(5)}${chunk('x', 'length')}${done}`),
    ],
  ])('%s: TPOT is not observable, and an SLO on it is violated', async (_, behaviour) => {
    behave = async (...args) => {
      await wait(20)
      return behaviour(...args)
    }
    const load = loads[0]!
    const limits = [
      { metric: 'ttft', limitMs: 1000 },
      { metric: 'tpot', limitMs: 1000 },
    ] as const
    const perToken = { ...slo, metric: 'tpot' } as const
    for (const asked of [perToken, { ...slo, limits }]) {
      const point = await generator.run(target(), load, asked, signal)
      expect(point.errors).toBe(point.requests)
      expect(point.errorKinds).toEqual({
        'TPOT not observable: the answer came in one piece': point.requests,
      })
      expect(meetsSlo(point, asked)).toBe(false)
    }
    const { errors, requests, stream, ...point } = await generator.run(
      target(),
      load,
      { ...slo, metric: 'ttft' },
      signal,
    )
    expect([errors, stream!.tpot.requests, stream!.interToken.requests]).toEqual([0, 0, 0])
    expect(stream!.ttft.requests).toBe(requests)
    // Nor is it met by a window that was measured for another SLO.
    expect(judgeWindow({ errors, requests, stream, ...point }, perToken)).toBe(false)
  })

  /** Prompts of two classes, half of them each: the slow ones are asked for nine tokens. */
  const ofTwoClasses = () => {
    const of = (name: string, tokens: number) => ({
      name,
      share: 0.5,
      inputTokens: { kind: 'fixed', tokens: 5 } as const,
      outputTokens: { kind: 'fixed', tokens } as const,
    })
    const [quick, slow] = [of('quick', 3), of('slow', 9)]
    const prompts = {
      inputTokens: quick.inputTokens,
      outputTokens: quick.outputTokens,
      classes: [quick, slow],
    }
    return protocolFor('openai').prepare(url, 'm', { ...generated, prompts }, signal)
  }

  test.each(loads)(
    '$kind loop: answers are told by the class that was asked, whose server is slow to one of them',
    async (load) => {
      behave = async (response, body) => {
        if (body.max_tokens === 9) await wait(100)
        return steady(response, body)
      }
      const asked = await ofTwoClasses()
      const { stream, requests } = await generator.run(
        asked,
        load,
        { ...slo, metric: 'ttft', limitMs: 125 },
        signal,
      )
      const { classes = {} } = stream!
      expect(Object.keys(classes)).toEqual(['quick', 'slow'])
      expect(classes.quick!.ttft.requests + classes.slow!.ttft.requests).toBe(requests)
      expect(classes.slow!.good).toBe(0)
      expect(classes.slow!.ttft.p50Ms).toBeGreaterThan(129)
      expect(classes.quick!.ttft.p50Ms).toBeLessThan(classes.slow!.ttft.p50Ms)
    },
  )

  test.each(loads)(
    '$kind loop: requests that fail are of the class that was asked, which misses its SLO by them',
    async (load) => {
      const asked = await ofTwoClasses()
      behave = (response, body) =>
        body.max_tokens === 9 ? response.writeHead(503).end() : steady(response, body)
      const of = { ...slo, maxErrorRate: 1, limitMs: 5000 }
      const { stream, errors, sloMs } = await generator.run(
        asked,
        load,
        { ...of, classes: ['quick', 'slow'] },
        signal,
      )
      const { quick, slow } = stream!.classes!
      expect([quick!.errors, quick!.good, slow!.good]).toEqual([0, 1, 0])
      expect(slow!.errors).toBe(errors)
      expect(sloMs).toBe(Number.POSITIVE_INFINITY)
      const together = await generator.run(asked, load, { ...of, percentile: 0.3 }, signal)
      expect(together.sloMs).toBeLessThan(5000)
    },
  )

  test.each(loads)(
    '$kind loop: a stream cut in the middle is an error, of its own class',
    async (load) => {
      let n = 0
      behave = async (response, body) => {
        if (n++ % 2 === 0) return steady(response, body)
        response.write(chunk('a'))
        await wait(5)
        return n % 4 === 0 ? response.destroy() : response.end()
      }
      const point = await generator.run(target(), load, slo, signal)
      expect(Object.keys(point.errorKinds)).toEqual(['cut stream'])
      expect(point.errors).toBeGreaterThan(1)
      expect(point.achievedRps).toBeGreaterThan(0)
    },
  )
})
