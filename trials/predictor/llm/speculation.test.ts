import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countParameters, type Decoder, findArchitecture } from '../../devices/architecture.ts'
import { findGpu } from '../../devices/catalogue.ts'
import { engineProfiles, predictDraftTimes, predictStepTimes } from './engine-profile.ts'
import {
  computeMeanTokens,
  computeTokensVariance,
  inferAcceptance,
  resolveDraft,
} from './speculation.ts'
import { computeCacheSize } from './step-costs.ts'
import type { LlmDevice } from './step-model.ts'

const llama = findArchitecture('llama-3.1-8b') as Decoder
const drafting = fc.record({
  tokens: fc.integer({ min: 1, max: 16 }),
  acceptance: fc.double({ min: 0, max: 0.99, noNaN: true }),
})

describe('tokens of a step', () => {
  test('on average as equation 1 of Leviathan, Kalman and Matias has it', () => {
    fc.assert(
      fc.property(drafting, ({ tokens, acceptance }) => {
        expect(computeMeanTokens({ tokens, acceptance })).toBeCloseTo(
          (1 - acceptance ** (tokens + 1)) / (1 - acceptance),
          9,
        )
      }),
    )
    expect([
      computeMeanTokens({ tokens: 4, acceptance: 0 }),
      computeMeanTokens({ tokens: 4, acceptance: 1 }),
    ]).toEqual([1, 5])
  })

  test('their variance is that of the distribution, told one by one', () => {
    fc.assert(
      fc.property(drafting, ({ tokens, acceptance }) => {
        // k tokens: k - 1 drafts accepted, the next one not; of all accepted nothing is refused.
        const chances = Array.from(
          { length: tokens + 1 },
          (_, kept) => acceptance ** kept * (kept < tokens ? 1 - acceptance : 1),
        )
        const mean = chances.reduce((sum, p, kept) => sum + p * (kept + 1), 0)
        const variance = chances.reduce((sum, p, kept) => sum + p * (kept + 1 - mean) ** 2, 0)
        expect(chances.reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 9)
        expect(computeTokensVariance({ tokens, acceptance })).toBeCloseTo(variance, 6)
      }),
    )
  })

  test('what a server counts leads back to the probability', () => {
    fc.assert(
      fc.property(drafting, ({ tokens, acceptance }) => {
        expect(inferAcceptance(computeMeanTokens({ tokens, acceptance }) - 1, tokens)).toBeCloseTo(
          acceptance,
          3,
        )
      }),
    )
  })
})

describe('what drafts', () => {
  test('nothing, one layer of the model, or a model by its name, however it was trained further', () => {
    expect(resolveDraft('ngram', llama, undefined)).toBeUndefined()
    const layer = resolveDraft('eagle3', llama, 'org/anything')!
    expect(layer).toMatchObject({ layers: 1, hidden: 4096, vocabulary: 32_000 })
    expect(countParameters(layer) / countParameters(llama)).toBeLessThan(0.1)
    for (const name of [
      'llama-3.2-1b',
      'meta-llama/Llama-3.2-1B-Instruct',
      '/weights/Llama-3.2-1B',
    ])
      expect(resolveDraft('draft', llama, name)?.name).toBe('llama-3.2-1b')
    expect(() => resolveDraft('draft', llama, undefined)).toThrow(/without a draft model/)
    expect(() => resolveDraft('draft', llama, 'org/unheard-of')).toThrow(
      /unknown model architecture 'unheard-of'/,
    )
    expect(() => resolveDraft('draft', llama, 'bert')).toThrow(/not a language model/)
  })

  test('of a mixture of experts the layer is as wide as what a token goes through', () => {
    const mixture = findArchitecture('mixtral-8x7b') as Decoder
    expect(resolveDraft('eagle3', mixture, undefined)).toMatchObject({ intermediate: 2 * 14336 })
    expect(resolveDraft('eagle3', mixture, undefined)!.experts).toBeUndefined()
  })
})

describe('what it costs', () => {
  const device: LlmDevice = {
    architecture: llama,
    gpu: findGpu('H100'),
    precision: 'fp16',
    tensorParallel: 1,
  }
  const stepMs = predictStepTimes(device, engineProfiles.vllm)
  const decode = (decodes: number, drafts = 0) => ({
    prefillTokens: 0,
    decodes,
    decodeContext: 500 * decodes,
    ...(drafts > 0 && { drafts }),
  })

  test('verifying is all but free where weights are read, and costs arithmetic where many answer', () => {
    expect(stepMs(decode(1, 4)) / stepMs(decode(1))).toBeLessThan(1.02)
    expect(stepMs(decode(256, 4 * 256)) / stepMs(decode(256))).toBeGreaterThan(1.8)
    // The context of an answer is read once for all of its tokens.
    expect(
      stepMs({ ...decode(8, 8), decodeContext: 80_000 }) -
        stepMs({ ...decode(8), decodeContext: 80_000 }),
    ).toBeCloseTo(stepMs(decode(8, 8)) - stepMs(decode(8)), 6)
  })

  test('a draft model takes a pass for each token, and one over the prompts; a small one is cheap', () => {
    const small = resolveDraft('draft', llama, 'llama-3.2-1b')!
    const draftMs = predictDraftTimes(device, small, 4, engineProfiles.vllm)
    expect(draftMs(decode(8))).toBe(0)
    expect(draftMs(decode(8, 32))).toBeCloseTo(
      2 * predictDraftTimes(device, small, 2, engineProfiles.vllm)(decode(8, 16)),
      6,
    )
    expect(
      draftMs({ prefillTokens: 2000, prompts: 1, decodes: 0, decodeContext: 0 }),
    ).toBeGreaterThan(1)
    const layerMs = predictDraftTimes(
      device,
      resolveDraft('eagle3', llama, undefined)!,
      4,
      engineProfiles.vllm,
    )(decode(8, 32))
    expect(layerMs).toBeLessThan(0.5 * draftMs(decode(8, 32)))
    expect(layerMs).toBeGreaterThan(0.02 * stepMs(decode(8)))
  })

  test('its weights and its own keys and values leave fewer tokens for the cache', () => {
    const tokensWith = (draft?: Decoder) => computeCacheSize(device, 0.9, 2048, 4096, draft).tokens
    expect(tokensWith(resolveDraft('eagle3', llama, undefined))).toBeLessThan(tokensWith())
    expect(tokensWith(resolveDraft('draft', llama, 'llama-3.2-1b'))).toBeLessThan(
      0.85 * tokensWith(),
    )
    const on = { ...device, gpu: findGpu('L4') }
    expect(() =>
      computeCacheSize(on, 0.9, 2048, 4096, resolveDraft('draft', llama, 'llama-3.2-3b')),
    ).toThrow(/llama-3.2-3b as draft model/)
  })
})
