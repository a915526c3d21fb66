import { describe, expect, test } from 'vitest'
import type { Parameter, RangeParameter, SearchSpace } from '../types.ts'
import { createEncoder } from './encoding.ts'

const base = { category: 'server' } as const
const batch: Parameter = {
  ...base,
  name: 'batch',
  kind: 'ordinal',
  values: [1, 2, 4, 8],
  scale: 'log',
}
const loop: Parameter = { ...base, name: 'loop', kind: 'categorical', values: ['sync', 'async'] }
const queue: Parameter = {
  ...base,
  name: 'queue',
  kind: 'int',
  min: 10,
  max: 30,
  step: 10,
  scale: 'linear',
}
const real = (more: object = {}): RangeParameter => ({
  ...base,
  name: 'x',
  kind: 'float',
  min: 0,
  max: 1,
  scale: 'linear',
  ...more,
})
const only = (...parameters: Parameter[]): SearchSpace => ({ parameters, constraints: [] })

describe('encoding', () => {
  test('log and linear axes span [0, 1]; names are 1 apart; features are scaled', () => {
    const gpu: Parameter = {
      ...base,
      name: 'gpu',
      kind: 'categorical',
      values: ['T4', 'A10', 'H100'],
      features: { T4: [5, 1], A10: [6, 3], H100: [8, 2] },
    }
    const encoder = createEncoder({ parameters: [batch, queue, loop, gpu], constraints: [] })
    expect(encoder.columns.map((c) => [c.kind, c.group])).toEqual([
      ['number', 0],
      ['number', 1],
      ['name', 2],
      ['name', 2],
      ['feature', 3],
      ['feature', 4],
    ])
    expect([...encoder.encode({ batch: 2, queue: 20, loop: 'sync', gpu: 'H100' })]).toEqual([
      expect.closeTo(1 / 3),
      0.5,
      Math.SQRT1_2,
      0,
      1,
      0.5,
    ])
    const a = encoder.encode({ batch: 1, queue: 10, loop: 'sync', gpu: 'T4' })
    const b = encoder.encode({ batch: 1, queue: 10, loop: 'async', gpu: 'T4' })
    expect(a.reduce((sum, v, i) => sum + (v - b[i]!) ** 2, 0)).toBeCloseTo(1)
  })
  test('a log axis that starts at zero is linear', () => {
    const encoder = createEncoder({
      parameters: [{ ...base, name: 'n', kind: 'ordinal', values: [0, 5, 10], scale: 'log' }],
      constraints: [],
    })
    expect([...encoder.encode({ n: 5 })]).toEqual([0.5])
  })
})

test('names with shared parts are closer; others are equally distant', () => {
  const apart = (values: readonly string[], a: string, b: string) => {
    const { encode } = createEncoder({
      parameters: [{ name: 'vm', category: 'resource', kind: 'categorical', values }],
      constraints: [],
    })
    return Math.hypot(...encode({ vm: a }).map((v, i) => v - encode({ vm: b })[i]!))
  }
  const vms = ['c4.large', 'c4.xlarge', 'm4.large', 'm4.xlarge']
  expect(apart(vms, 'c4.large', 'c4.xlarge')).toBeLessThan(apart(vms, 'c4.large', 'm4.xlarge'))
  for (const plain of [
    ['T4', 'L4', 'A10'],
    ['a.1', 'b.2', 'c.3'],
    ['fp16', 'int8', 'w.4'],
  ])
    expect(apart(plain, plain[0]!, plain[1]!)).toBeCloseTo(1, 12)
})

test('a log axis scales a range by ln, names with unlike features lie between 0 and 1', () => {
  const { encode } = createEncoder(
    only(
      real({ min: 1, max: 100, scale: 'log' }),
      real({ name: 'z', min: 2, max: 4 }),
      real({ name: 'o', min: 3, max: 3 }),
    ),
  )
  expect([...encode({ x: 10, z: 3.5, o: 3 })]).toEqual([expect.closeTo(0.5, 12), 0.75, 0])
  const features = createEncoder(only({ ...loop, features: { sync: [5, 7], async: [9, 7] } }))
  expect([...features.encode({ loop: 'async' })]).toEqual([1, 0])
  expect([...features.encode({ loop: 'sync' })]).toEqual([0, 0])
  expect([...features.encode({ loop: 'unheard of' })]).toEqual([0, 0])
  expect([...createEncoder(only(loop)).encode({ loop: 'unheard of' })]).toEqual([0, 0])
  const ordered = createEncoder(only({ ...batch, values: [2, 4, 32] }))
  expect([...ordered.encode({ batch: 4 })]).toEqual([expect.closeTo(0.25, 12)])
})

test('each part of a name that differs has a group', () => {
  const groups = (...values: string[]) =>
    createEncoder(only({ ...loop, values })).columns.map((c) => c.group)
  // Families, sizes, whole names.
  expect(groups('c4.large', 'c4.xlarge', 'm4.large', 'm4.xlarge')).toEqual([0, 0, 1, 1, 2, 2, 2, 2])
  expect(groups('a.x', 'a.y', 'a.z')).toEqual([0, 0, 0])
  expect(groups('v1-a-x', 'v1-a-y', 'v1-b-x')).toEqual([0, 0, 1, 1, 2, 2, 2])
  expect(groups('a.x', 'b', 'a.y')).toEqual([0, 0, 0])
  expect(groups('a.x', 'a.x.1', 'b.x', 'b.y')).toEqual([0, 0, 0, 0])
  expect(
    createEncoder(only({ ...loop, values: ['c4.large', 'c4.xlarge', 'm4.large'] }, batch)).groups,
  ).toBe(4)
})
