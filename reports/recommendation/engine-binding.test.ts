import { expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial, Usage } from '../../trials/types.ts'
import { complete, measured, sampleInput } from '../samples.contract.ts'
import { describeEngine, findEngineBinding } from './engine-binding.ts'
import { recommend } from './recommend.ts'

const own: Configuration = { cpuCores: 2, gpu: 'H100', maxNumSeqs: 64 }
const busy: Usage = { gpuUtilization: 1, sequences: 40, waiting: 0, cacheUse: 0.4, preemptions: 0 }

test.each<[string, Usage, string, string]>([
  [
    'a full cache',
    { ...busy, cacheUse: 0.97, preemptions: 14 },
    'kv-memory',
    'KV cache 97 % full, 14 preemptions, 40 of 64 concurrent sequences',
  ],
  [
    'sequences that had to yield',
    { ...busy, preemptions: 1 },
    'kv-memory',
    'KV cache 40 % full, 1 preemption, 40 of 64 concurrent sequences',
  ],
  [
    'all places taken while others wait',
    { ...busy, sequences: 64, waiting: 20 },
    'scheduler',
    'KV cache 40 % full, 64 of 64 concurrent sequences, 20 waiting',
  ],
  // 989 TFLOPS in 16 bits over 3,350 GB/s.
  [
    'few sequences',
    { ...busy, waiting: 2 },
    'bandwidth',
    'KV cache 40 % full, 40 of 64 concurrent sequences, 2 waiting, and above 295 sequences per step, arithmetic takes longer than reading the weights',
  ],
])('%s', (_, usage, what, evidence) => {
  expect(findEngineBinding(usage, own)).toMatchObject({ what, evidence })
})

test('places of llama-server', () => {
  const { maxNumSeqs, ...rest } = own
  expect(findEngineBinding({ sequences: 4, waiting: 1 }, { ...rest, parallel: 4 })).toMatchObject({
    what: 'scheduler',
    evidence: '4 of 4 concurrent sequences, 1 waiting',
  })
})

test('many sequences compute; fewer do with weights of 4 bits, which are read sooner', () => {
  expect(findEngineBinding({ ...busy, sequences: 300 }, { ...own, maxNumSeqs: 512 })?.what).toBe(
    'compute',
  )
  expect(findEngineBinding({ ...busy, sequences: 100 }, { ...own, maxNumSeqs: 512 })?.what).toBe(
    'bandwidth',
  )
  expect(
    findEngineBinding({ ...busy, sequences: 100 }, { ...own, maxNumSeqs: 512, quantization: 'awq' })
      ?.what,
  ).toBe('compute')
})

test('drafts: how many were accepted, the probability that it comes to, and that each is computed', () => {
  const drafting = { ...own, maxNumSeqs: 512, speculativeTokens: 4 }
  // 0.7 + 0.7² + 0.7³ + 0.7⁴
  expect(describeEngine({ ...busy, acceptedTokens: 1.773 }, drafting)).toBe(
    'KV cache 40 % full, 40 of 512 concurrent sequences, 1.8 of 4 draft tokens accepted (acceptance 0.70)',
  )
  expect(describeEngine({ ...busy, acceptedTokens: 1.773 }, own)).not.toContain('draft')
  expect(findEngineBinding({ ...busy, sequences: 100 }, drafting)?.what).toBe('compute')
})

test('of pools the busier one binds: prompts compute, answers read', () => {
  const pooled = (prefillUtilization: number, decodeUtilization: number) =>
    findEngineBinding({ ...busy, prefillUtilization, decodeUtilization }, own)
  expect(pooled(0.9, 0.4)).toMatchObject({
    what: 'compute',
    evidence:
      'KV cache 40 % full, 40 of 64 concurrent sequences, prefill servers busy 90 %, decode servers 40 % of the time',
  })
  expect(pooled(0.3, 0.8)?.what).toBe('bandwidth')
})

test('nothing is said of servers that tell nothing, nor of a GPU that nobody knows', () => {
  expect(findEngineBinding({ gpuUtilization: 1 }, own)).toBeUndefined()
  expect(findEngineBinding(busy, { ...own, gpu: 'none' })).toBeUndefined()
  expect(findEngineBinding(busy, { ...own, gpu: 'X9000' })).toBeUndefined()
  expect(describeEngine({ sequences: 12, waiting: 3 }, {})).toBe(
    '12 concurrent sequences, 3 waiting',
  )
})

const bindingOf = (usage: Usage, saturationRps = 200) => {
  const measurement = { ...measured(200, 5), saturationRps }
  const trial: FinishedTrial = complete(1, own, measurement, { usage })
  return recommend({ ...sampleInput, trials: [trial] }).binding
}

test('the verdict names it: at the capacity, and not what only an overload filled', () => {
  const full = { ...busy, cacheUse: 0.99, preemptions: 3 }
  expect(bindingOf(full)).toEqual({
    what: 'kv-memory',
    evidence:
      'KV cache 99 % full, 3 preemptions, 40 of 64 concurrent sequences, GPU busy 100 % of the time',
  })
  expect(bindingOf(full, 1000).what).not.toBe('kv-memory')
  expect(bindingOf(busy)).toMatchObject({
    what: 'bandwidth',
    evidence: expect.stringMatching(/^GPU busy 100 % of the time, KV cache 40 %/),
  })
})

test('a verdict that the SLO binds says how busy either pool was', () => {
  expect(
    bindingOf({ gpuUtilization: 0.6, prefillUtilization: 0.75, decodeUtilization: 0.45 }, 1000),
  ).toEqual({
    what: 'slo',
    evidence:
      'saturates at 1,000 req/s, meets the SLO up to 18 % of that, GPU busy 60 % of the time, prefill servers busy 75 %, decode servers 45 % of the time',
  })
})
