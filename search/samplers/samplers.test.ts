import { describe, expect, test } from 'vitest'
import { createSampler, samplerNames } from '../index.ts'
import { samplerContract } from './sampler.contract.ts'

for (const name of samplerNames) samplerContract(createSampler(name))

describe('createSampler', () => {
  test('gp is the default', () => expect(createSampler().name).toBe('gp'))
  test('names what it knows when asked for something else', () =>
    expect(() => createSampler('tpe')).toThrow(/gp, random, grid, sobol, halton/))
})
