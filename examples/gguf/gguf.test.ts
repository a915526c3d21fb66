import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPredictor } from '../../trials/predictor/predictor.ts'
import type { RunningPredictor } from '../../trials/predictor/running-predictor.ts'
import { get, metric, post, testSettings } from '../../trials/predictor/testing.contract.ts'
import { tiny, writeRandomModel } from './random-model.ts'

const missing = await import('node-llama-cpp' as string).then(
  () => false,
  () => true,
)
const folder = mkdtempSync(join(tmpdir(), 'tune-gguf-'))
const path = join(folder, 'tiny.gguf')
writeRandomModel(path, tiny)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('the same seed writes the same bytes, another one others', () => {
  const hashOf = (seed: number) => {
    const file = join(folder, `${seed}.gguf`)
    writeRandomModel(file, { ...tiny, seed })
    return createHash('sha256').update(readFileSync(file)).digest('hex')
  }
  expect(hashOf(3)).toBe(hashOf(3))
  expect(hashOf(3)).not.toBe(hashOf(4))
})

describe.skipIf(missing)(
  'a GGUF model by node-llama-cpp (skipped without: npm install --no-save node-llama-cpp@3.22.1)',
  () => {
    const settings = (env: Record<string, string> = {}) =>
      testSettings({
        ...{
          ENGINE: 'gguf',
          GPU: 'none',
          MODEL: 'tiny',
          MODEL_PATH: path,
          MAX_NUM_SEQS: '3',
          MAX_MODEL_LEN: '256',
        },
        ...{ MAX_NUM_BATCHED_TOKENS: '32', CPU_CORES: '1', ...env },
      })
    let predictor: RunningPredictor
    beforeAll(async () => {
      predictor = await startPredictor(settings())
    })
    afterAll(() => predictor.stop())
    const complete = (tokens: number, prompt: string) =>
      post(`${predictor.url}/v1/completions`, {
        model: 'tiny',
        prompt,
        max_tokens: tokens,
        ignore_eos: true,
      })

    test('says what it is', async () => {
      expect(predictor.provenance).toBe('measured')
      expect((await get(`${predictor.url}/v1/models`)).json.data[0]).toMatchObject({
        id: 'tiny',
        max_model_len: 256,
        provenance: 'measured',
      })
    })

    test('more requests than places each get as many tokens as asked', async () => {
      const lengths = [5, 40, 17, 60, 1, 33, 28]
      const answers = await Promise.all(
        lengths.map((tokens, i) =>
          complete(tokens, `prompt number ${i} of several, longer than a step`),
        ),
      )
      expect(answers.map(({ json }) => json.usage.completion_tokens)).toEqual(lengths)
      expect(answers.every(({ json }) => json.choices[0].finish_reason === 'length')).toBe(true)
      expect(await metric(predictor.url, 'predictor_running')).toBe(0)
    })

    test('sequences that are under way share their steps, and begin as they do alone', async () => {
      const prompts = ['one of three', 'two of three, and a little longer', 'three']
      const alone: string[] = []
      for (const prompt of prompts) alone.push((await complete(40, prompt)).json.choices[0].text)
      const counted = async () => [
        await metric(predictor.url, 'predictor_items_total'),
        await metric(predictor.url, 'predictor_batches_total'),
      ]
      const [itemsBefore, batchesBefore] = await counted()
      const answers = await Promise.all(prompts.map((prompt) => complete(40, prompt)))
      const [items, batches] = await counted()
      expect((items! - itemsBefore!) / (batches! - batchesBefore!)).toBeGreaterThan(2.5)
      // Sums of another order round otherwise, and a model of random weights has near ties soon.
      const begins = (text: string) => text.slice(0, 8)
      expect(answers.map(({ json }) => begins(json.choices[0].text))).toEqual(alone.map(begins))
    })

    test('a prompt says the same from the cache as anew, beside others and alone', async () => {
      const prompt = 'what is said once is said again in the very same way'
      const [first] = await Promise.all([
        complete(12, prompt),
        complete(30, 'another'),
        complete(30, 'and one more'),
      ])
      const before = await metric(predictor.url, 'predictor_prefix_hit_tokens_total')
      const again = await complete(12, prompt)
      expect(again.json.choices[0].text.length).toBe(first.json.choices[0].text.length)
      expect(again.json.usage).toEqual(first.json.usage)
      expect(await metric(predictor.url, 'predictor_prefix_hit_tokens_total')).toBeGreaterThan(
        before,
      )
    })

    test('streams a chunk a token, the usage, and the end', async () => {
      const body = {
        model: 'tiny',
        messages: [{ role: 'user', content: 'hello' }],
        max_tokens: 7,
        ignore_eos: true,
        stream: true,
      }
      const answer = await fetch(`${predictor.url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ ...body, stream_options: { include_usage: true } }),
      })
      const lines = (await answer.text()).split('\n\n').filter((line) => line !== '')
      expect(lines).toHaveLength(9)
      expect(JSON.parse(lines[7]!.slice(6)).usage.completion_tokens).toBe(7)
      expect(lines[8]).toBe('data: [DONE]')
    })

    test('what is too long is refused', async () => {
      const answer = await complete(250, 'a prompt that does not leave so much room')
      expect([answer.status, answer.json.error.message]).toEqual([
        400,
        expect.stringMatching(/maximum context length is 256/),
      ])
    })

    test('the cache of more sequences than the memory holds is out of memory, by its name', async () => {
      const big = join(folder, 'wide.gguf')
      writeRandomModel(big, {
        ...tiny,
        width: 1024,
        heads: 8,
        kvHeads: 8,
        contextLength: 1_000_000,
        layers: 2,
      })
      await expect(
        startPredictor(settings({ MODEL_PATH: big, MAX_NUM_SEQS: '50', MAX_MODEL_LEN: '1000000' })),
      ).rejects.toThrow(/out of memory: 50 sequences of 1000000 tokens/)
    })
  },
)
