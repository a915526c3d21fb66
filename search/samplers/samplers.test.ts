import { describe, expect, test } from 'vitest'
import { createSampler } from '../index.ts'
import { samplerContract } from './sampler.contract.ts'
import { samplerNames } from './sampler-names.ts'

for (const name of samplerNames) samplerContract(createSampler(name))

describe('createSampler', () => {
  test('gp is the default', () => expect(createSampler().name).toBe('gp'))
  test('lists the known names for an unknown one', () =>
    expect(() => createSampler('tpe')).toThrow(/gp, random, grid, sobol, halton/))
})
