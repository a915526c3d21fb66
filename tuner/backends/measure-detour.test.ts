import { expect, test } from 'vitest'
import type { LoadGenerator, Target } from '../../profiler/index.ts'
import { detourSentence, measureDetour } from './measure-detour.ts'

const way = { url: 'way' } as Extract<Target, { kind: 'http' }>
const direct = { url: 'direct' } as Extract<Target, { kind: 'http' }>
const never = new AbortController().signal

/** Answers after so many ms, NaN: not at all. */
const generatorOf = (latencies: Record<string, readonly number[]>) => {
  const asked: string[] = []
  const generator = {
    name: 'fake',
    play: async (target: Target) => {
      const { url } = target as typeof way
      asked.push(url)
      return { latencyMs: Float64Array.from(latencies[url]!) }
    },
    close: async () => void asked.push('closed'),
  } as unknown as LoadGenerator
  return { generator, asked }
}

test('both ways are asked in turn, and what the one adds is told', async () => {
  const { generator, asked } = generatorOf({ way: [3, 3, 5, Number.NaN], direct: [2, 2, 4] })
  const detour = await measureDetour({ by: 'the Service', way, direct }, never, generator)
  expect(asked).toEqual(['way', 'direct', 'way', 'direct', 'way', 'direct', 'closed'])
  expect(detour).toMatchObject({
    by: 'the Service',
    way: { requests: 9, p50Ms: 3 },
    direct: { requests: 9, p50Ms: 2 },
  })
  expect(detourSentence(detour)).toMatch(
    /^measured through the Service: p50 3 ms, 1 ms more than straight to the pod \(p99 5 ms and 4 ms\)/,
  )
})

test('a pod that turns away who comes without the mesh is not compared with', async () => {
  const { generator, asked } = generatorOf({ way: [3] })
  const detour = await measureDetour(
    { by: 'the Service', way, direct: undefined },
    never,
    generator,
  )
  expect(asked).toEqual(['way', 'way', 'way', 'closed'])
  expect(detour.direct).toBeUndefined()
  expect(detourSentence(detour)).toContain('own address answers nobody')
  const silent = await measureDetour(
    { by: 'the Service', way, direct },
    never,
    generatorOf({ way: [3], direct: [Number.NaN] }).generator,
  )
  expect(detourSentence(silent)).toContain('own address answers nobody')
})

test('a way that is quicker is no minus sign', () => {
  const of = (p50Ms: number) => ({ requests: 10, p50Ms, p99Ms: p50Ms })
  expect(detourSentence({ by: 'the Service', way: of(2), direct: of(3) })).toContain(
    '1 ms less than straight',
  )
})
