import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { mpsPull } from '../../devices/mps-pull.ts'
import { machineNowMs } from '../machine-clock.ts'
import { createEngine } from './emulated.ts'
import { Neighbours } from './neighbours.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'neighbours-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const engineOf = (gpuSharing: 'mps' | 'time-slice', neighbours?: string) =>
  createEngine({
    model: 'bert-tiny',
    batchSize: 1,
    sequenceLength: 16,
    precision: 'fp16',
    gpu: 'T4',
    gpuMemoryPercent: 50,
    gpuSharing,
    ...(neighbours && { neighbours }),
    instances: 1,
    warmUpBatch: 1,
    cpuThreads: 1,
    seed: 1,
  })

test('a neighbour that is busy slows one down by its share, one that is idle or has ended does not', () => {
  const [own, other] = [new Neighbours(folder, 0.5), new Neighbours(folder, 0.4)]
  expect(own.slowdownAt(0)).toBe(1)
  other.tell(1000)
  expect(own.slowdownAt(999)).toBeCloseTo(1 + mpsPull.mean * 0.4, 9)
  expect(own.slowdownAt(1000)).toBe(1)
  // What it does itself does not.
  own.tell(2000)
  expect(own.slowdownAt(1500)).toBe(1)
  expect(other.slowdownAt(1500)).toBeCloseTo(1 + mpsPull.mean * 0.5, 9)
  const third = new Neighbours(folder, 0.1)
  other.tell(2000)
  expect(third.slowdownAt(1500)).toBeCloseTo(1 + mpsPull.mean * (0.5 + 0.4), 9)
  own.close()
  expect(third.slowdownAt(1500)).toBeCloseTo(1 + mpsPull.mean * 0.4, 9)
  expect(readdirSync(folder)).toHaveLength(2)
})

test('engines on one emulated GPU under MPS tell one another; by time or alone they do not', async () => {
  const shared = engineOf('mps', folder)
  await shared.load()
  expect(readdirSync(folder)).toHaveLength(1)
  await engineOf('time-slice', folder).load()
  await engineOf('mps').load()
  expect(readdirSync(folder)).toHaveLength(1)
  await shared.close()
  expect(readdirSync(folder)).toEqual([])
})

test('a batch takes as much longer as its neighbour is busy', async () => {
  const ids = { datatype: 'INT32' as const, shape: [1, 16], data: new Int32Array(16) }
  const busyMsOf = async (isBeside: boolean) => {
    const engine = engineOf('mps', folder)
    await engine.load()
    const other = new Neighbours(folder, 0.4)
    const now = machineNowMs()
    if (isBeside) other.tell(now + 1)
    await engine.infer({ input_ids: ids, attention_mask: ids }, now)
    other.close()
    await engine.close()
    return engine.utilization!().busyMs
  }
  expect((await busyMsOf(true)) / (await busyMsOf(false))).toBeCloseTo(1 + mpsPull.mean * 0.4, 3)
})
