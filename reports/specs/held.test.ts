import { expect, test } from 'vitest'
import { heldOf } from './held.ts'
import { noGpu, ownCommand, whole } from './spec-samples.contract.ts'

const builtin = { server: 'builtin', engine: 'tfjs', weights: 'given' } as const
const bert = { ...ownCommand, server: 'builtin', engine: 'emulated', how: 'emulated', modelKind: 'encoder', weightsMiB: 418 } as const
const own = { server: 'command', weights: 'own' } as const

test('memory is what was tuned, or measured with a margin, or not asked for; never made up', () => {
  const memory = (...args: Parameters<typeof heldOf>) => heldOf(...args).memoryMiB
  expect(memory({ measured: ownCommand, peakRssMiB: 1000 }, own, true, noGpu, { cpuCores: 2 })).toBe(1536)
  expect(memory({ measured: ownCommand, peakRssMiB: 10 }, own, true, noGpu, {})).toBe(256)
  expect(memory({ measured: ownCommand, peakRssMiB: 1000 }, own, true, noGpu, { memoryMiB: 1500 })).toBe(1500)
  expect(memory({ measured: ownCommand }, own, true, noGpu, { cpuCores: 2 })).toBeUndefined()
  expect(memory({ measured: bert, peakRssMiB: 200 }, builtin, false, whole, { cpuCores: 2 })).toBeUndefined()
  expect(heldOf({ measured: bert, peakRssMiB: 200 }, builtin, false, whole, {}).sources[1]).toEqual({
    value: 'no memory asked for',
    from: 'not tuned, and not measured of what this deploys: set it yourself, once it has run',
  })
})

test('what was tuned in emulation is raised to what a real start needs', () => {
  const held = (memoryMiB: number, cpuCores = 2) =>
    heldOf({ measured: bert }, builtin, false, { ...whole, memoryMiB, cpuCores }, { memoryMiB, cpuCores })
  expect(held(512)).toMatchObject({ memoryMiB: 2304, sources: [{}, { from: '512 MiB were tuned; a real start needs about 2304 MiB' }, {}] })
  expect(held(8192).memoryMiB).toBe(8192)
  expect(held(8192, 0.25)).toMatchObject({ cpuCores: 0.5, sources: [{ from: '0.25 were tuned; a real start needs 0.5' }, {}, {}] })
  expect(heldOf({ measured: ownCommand }, own, true, { ...noGpu, cpuCores: 0.25 }, { cpuCores: 0.25 }).cpuCores).toBe(0.25)
})

test('a start may take three times the measured launch; no virtual or emulated one becomes a deadline', () => {
  const start = (launchSeconds: number | undefined, holds: boolean, measured: typeof ownCommand = ownCommand) =>
    heldOf({ measured, launchSeconds }, own, holds, noGpu, {}).startupSeconds
  expect(start(31, true)).toBe(93)
  expect(start(1.2, true)).toBe(60)
  expect(start(0, true)).toBe(300)
  expect(start(1.2, false)).toBe(300)
  expect(start(undefined, true)).toBe(300)
  // Weights are read at 200 MiB/s.
  expect(start(0, false, { ...bert, weightsMiB: 30_000 })).toBe(450)
})

test('a wait for a node is told, and is no part of the start', () => {
  const [, , start] = heldOf({ measured: ownCommand, launchSeconds: 31, nodeWaitSeconds: 240 }, own, true, noGpu, {}).sources
  expect(start).toMatchObject({ value: 'start within 93 s', from: expect.stringContaining('240 s that its pod waited for a node') })
})

test('of a server that ran already nobody knows what it held', () => {
  expect(heldOf({ measured: { ...ownCommand, server: 'url' } }, { server: 'url', weights: 'own' }, false, noGpu, {})).not.toHaveProperty(
    'cpuCores',
  )
})
