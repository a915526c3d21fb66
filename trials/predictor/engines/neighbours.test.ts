import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { mpsPull } from '../../devices/mps-pull.ts'
import { createEngine } from './emulated.ts'
import { Neighbours } from './neighbours.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'neighbours-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Busy for that part of two seconds, in batches of 10 ms; the last ends at 2 s. */
function busyUntilTwoSeconds(of: Neighbours, part: number): void {
  for (let at = 0; at < 2000; at += 10 / part) of.tell(at, 10)
}

test('a neighbour that is busy slows one down by its share, one that has been idle or has ended does not', () => {
  const [own, other] = [new Neighbours(folder, 0.5), new Neighbours(folder, 0.4)]
  expect(own.slowdownAt(0)).toBe(1)
  busyUntilTwoSeconds(other, 1)
  expect(own.slowdownAt(2000)).toBeCloseTo(1 + mpsPull.mean * 0.4, 2)
  // What it does itself does not.
  busyUntilTwoSeconds(own, 1)
  expect(own.slowdownAt(2100)).toBeCloseTo(1 + mpsPull.mean * 0.4, 2)
  expect(own.slowdownAt(5000)).toBe(1)
  const third = new Neighbours(folder, 1)
  busyUntilTwoSeconds(third, 0.5)
  // Two at once.
  const both = new Neighbours(folder, 0.1).slowdownAt(2000)
  expect(both).toBeGreaterThan(1 + mpsPull.mean * (0.5 + 0.4 + 0.35))
  expect(both).toBeLessThan(1 + mpsPull.mean * (0.5 + 0.4 + 0.65))
  other.close()
  expect(readdirSync(folder)).toHaveLength(3)
})

test('engines on one emulated GPU under MPS tell one another; by time or alone they do not', async () => {
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
  const shared = engineOf('mps', folder)
  await shared.load()
  expect(readdirSync(folder)).toHaveLength(1)
  await engineOf('time-slice', folder).load()
  await engineOf('mps').load()
  expect(readdirSync(folder)).toHaveLength(1)
  await shared.close()
  expect(readdirSync(folder)).toEqual([])
})
