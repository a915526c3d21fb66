import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../../../profiler/load/http-generator.ts'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { startPredictor } from '../predictor.ts'
import type { RunningPredictor } from '../running-predictor.ts'
import { get, metric, post, testSettings } from '../testing.contract.ts'

const { signal } = new AbortController()
const settings = (env: Record<string, string> = {}) =>
  testSettings({
    MODEL: 'qwen2.5-0.5b',
    GPU: 'H100',
    MAX_NUM_SEQS: '8',
    MAX_MODEL_LEN: '256',
    ...env,
  })
let predictor: RunningPredictor
beforeAll(async () => {
  predictor = await startPredictor(settings())
})
afterAll(() => predictor.stop())

const chat = (content: string, more: object = {}) =>
  post(`${predictor.url}/v1/chat/completions`, {
    model: 'qwen2.5-0.5b',
    messages: [{ role: 'user', content }],
    max_tokens: 5,
    ...more,
  })

describe('OpenAI protocol', () => {
  test('health, models and metrics', async () => {
    expect((await get(`${predictor.url}/health`)).status).toBe(200)
    expect((await get(`${predictor.url}/v1/models`)).json.data[0]).toMatchObject({
      id: 'qwen2.5-0.5b',
      max_model_len: 256,
      provenance: 'emulated',
    })
    expect(await metric(predictor.url, 'predictor_devices')).toBe(1)
    expect(predictor).toMatchObject({ provenance: 'emulated', device: 'H100 (emulated)' })
  })

  test('a whole answer of as many tokens as asked, marked emulated', async () => {
    const { status, json, headers } = await chat('how are you')
    expect(status).toBe(200)
    expect(headers.get('x-provenance')).toBe('emulated')
    expect(headers.get('keep-alive')).toBe('timeout=72')
    expect(json).toMatchObject({
      object: 'chat.completion',
      usage: { prompt_tokens: 3, completion_tokens: 5 },
      choices: [{ finish_reason: 'length' }],
    })
    expect(json.choices[0].message.content.split(' ')).toHaveLength(5)
    const completion = await post(`${predictor.url}/v1/completions`, {
      prompt: 'a b',
      max_tokens: 2,
    })
    expect(completion.json).toMatchObject({
      object: 'text_completion',
      choices: [{ text: 'the server' }],
    })
  })

  test('a stream of chunks, usage, and [DONE]', async () => {
    const answer = await fetch(`${predictor.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'hi' }],
        max_tokens: 3,
        stream: true,
        stream_options: { include_usage: true },
      }),
    })
    expect(answer.headers.get('content-type')).toBe('text/event-stream')
    const events = (await answer.text())
      .trim()
      .split('\n\n')
      .map((event) => event.replace('data: ', ''))
    expect(events.at(-1)).toBe('[DONE]')
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content)).toEqual([
      'the',
      ' server',
      ' answers',
      undefined,
    ])
    expect(chunks[2].choices[0].finish_reason).toBe('length')
    expect(chunks[3].usage).toEqual({ prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 })
  })

  test.each<
    [
      string,
      () => Promise<{ status: number; json: { error: { message: string } } }>,
      number,
      RegExp,
    ]
  >([
    ['too long', () => chat('a', { max_tokens: 256 }), 400, /maximum context length is 256/],
    ['no text', () => chat('  '), 400, /'messages'/],
    ['another model', () => chat('a', { model: 'gpt-4' }), 404, /'gpt-4' does not exist/],
    ['no JSON', () => post(`${predictor.url}/v1/completions`, '{'), 400, /not JSON/],
    [
      'another protocol',
      () => get(`${predictor.url}/v2/health/ready`),
      404,
      /speaks the OpenAI protocol/,
    ],
  ])('refuses %s with its reason', async (_, ask, status, message) => {
    const answer = await ask()
    expect(answer.status).toBe(status)
    expect(answer.json.error.message).toMatch(message)
  })

  test('a client that leaves frees its place', async () => {
    const leave = new AbortController()
    const body = JSON.stringify({ prompt: 'a', max_tokens: 250, stream: true })
    const answer = await fetch(`${predictor.url}/v1/completions`, {
      method: 'POST',
      body,
      signal: leave.signal,
    })
    await answer.body!.getReader().read()
    leave.abort()
    await expect.poll(() => metric(predictor.url, 'predictor_running'), { timeout: 60_000 }).toBe(0)
  })
})

test('weights that do not fit are out of memory, and nothing is left', async () => {
  await expect(startPredictor(settings({ MODEL: 'llama-3.1-8b', GPU: 'T4' }))).rejects.toThrow(
    /out of memory \(emulated\)/,
  )
})

describe("the profiler's openai", () => {
  const generator = new HttpLoadGenerator()
  afterAll(() => generator.close())
  const prompts = {
    inputTokens: { kind: 'uniform', from: 20, to: 60 },
    outputTokens: { kind: 'fixed', tokens: 20 },
    sharedPrefixTokens: 16,
  } as const

  test('measures first token, time per token and the whole, as the device model gives them', async () => {
    const slo = { percentile: 0.9, limitMs: 500, maxErrorRate: 0.01, metric: 'ttft' } as const
    const protocol = protocolFor('openai', {})
    expect(await protocol.isReady(predictor.url, 'qwen2.5-0.5b', signal)).toBe(true)
    const target = await protocol.prepare(
      predictor.url,
      'qwen2.5-0.5b',
      { kind: 'generated', seed: 1, count: 8, prompts },
      signal,
    )
    const load = {
      kind: 'open',
      rateRps: 20,
      arrivals: { kind: 'poisson' },
      durationS: 1,
      seed: 1,
    } as const
    const point = await generator.run(target, load, slo, signal)
    const { ttft, tpot, e2e, interToken, outputTokensPerSecond } = point.stream!
    expect(point).toMatchObject({ errors: 0, requests: 20, p50Ms: ttft.p50Ms })
    expect(interToken.requests).toBe(20 * 19)
    expect(ttft.p50Ms).toBeLessThan(e2e.p50Ms)
    expect(e2e.p50Ms).toBeGreaterThan(19 * tpot.p50Ms * 0.8)
    expect(outputTokensPerSecond).toBeGreaterThan(200)
    expect(await metric(predictor.url, 'predictor_prefix_hit_tokens_total')).toBeGreaterThan(0)
  })
})

describe('drafts', () => {
  test('several tokens come in one chunk, all are counted, and the time between tokens is by token', async () => {
    const drafting = await startPredictor(
      settings({
        SPECULATIVE_TOKENS: '4',
        SPECULATIVE_METHOD: 'eagle3',
        SPECULATIVE_ACCEPTANCE: '0.9',
      }),
    )
    const generator = new HttpLoadGenerator()
    try {
      expect(drafting.device).toBe('H100 (emulated; 4 tokens drafted, acceptance 0.9 assumed)')
      const answer = await fetch(`${drafting.url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify({
          prompt: 'a b',
          max_tokens: 40,
          stream: true,
          stream_options: { include_usage: true },
        }),
      })
      const events = (await answer.text()).trim().split('\n\n').slice(0, -1)
      const chunks = events.map((event) => JSON.parse(event.replace('data: ', '')))
      const texts = chunks.flatMap(({ choices }) =>
        choices.map(({ text }: { text: string }) => text),
      )
      expect(texts.length).toBeLessThan(25)
      expect(texts.join('').split(' ')).toHaveLength(40)
      expect(chunks.at(-1).usage.completion_tokens).toBe(40)
      const whole = await post(`${drafting.url}/v1/completions`, { prompt: 'a b', max_tokens: 40 })
      expect(whole.json.usage.completion_tokens).toBe(40)
      expect(whole.json.choices[0].text).toBe(texts.join(''))

      const prompts = {
        inputTokens: { kind: 'fixed', tokens: 20 },
        outputTokens: { kind: 'fixed', tokens: 30 },
      } as const
      const target = await protocolFor('openai', {}).prepare(
        drafting.url,
        'qwen2.5-0.5b',
        { kind: 'generated', seed: 1, count: 4, prompts },
        signal,
      )
      const load = {
        kind: 'open',
        rateRps: 10,
        arrivals: { kind: 'poisson' },
        durationS: 1,
        seed: 1,
      } as const
      const slo = { percentile: 0.9, limitMs: 500, maxErrorRate: 0.01, metric: 'ttft' } as const
      const { stream, errors } = await generator.run(target, load, slo, signal)
      expect([errors, stream!.interToken.requests]).toEqual([0, 10 * 29])
      expect(await metric(drafting.url, 'predictor_accepted_draft_tokens_total')).toBeGreaterThan(
        100,
      )
    } finally {
      await generator.close()
      await drafting.stop()
    }
  })
})
