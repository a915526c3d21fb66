import { expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { extractServiceTimes } from './service-times.ts'

/** Departures within a millisecond belong together. */
const unloadedMs = 1 / 0.15

/** A run of requests [sent, ended], ms. */
function runOfRequests(
  requests: readonly (readonly [sentMs: number, endMs: number])[],
  more: Partial<LoadRun> = {},
): LoadRun {
  return runOf(
    { kind: 'closed', connections: 1, durationS: 1 },
    requests.map(([sentMs, endMs]) => endMs - sentMs),
    { sentMs: Float64Array.from(requests, ([sentMs]) => sentMs), ...more },
  )
}
const workers = (count: number, overheadMs = 0) => ({
  workers: count,
  maxBatch: 1,
  maxDelayMs: 0,
  overheadMs,
})
const inOrder = [
  [0, 10],
  [2, 15],
  [3, 22],
  [40, 46],
] as const

test('a service begins at the arrival, or when a worker becomes free', () => {
  const one = extractServiceTimes(
    { run: runOfRequests(inOrder), disturbed: [] },
    workers(1),
    unloadedMs,
  )
  expect(one.log.tookMs).toEqual([10, 5, 7, 6])
  expect(one.log.endedMs).toEqual([10, 15, 22, 46])
  expect(one.systemSizeAtArrival).toEqual([0, 1, 2, 0])
  expect(one.waited).toEqual([false, true, true, false])
  expect(one.contradicting).toBe(0)
  const two = extractServiceTimes(
    { run: runOfRequests(inOrder), disturbed: [] },
    workers(2),
    unloadedMs,
  )
  expect(two.log.tookMs).toEqual([10, 13, 12, 6])
  expect(two.waited).toEqual([false, false, true, false])
})

test('requests reach the workers after the overhead', () => {
  const { log } = extractServiceTimes(
    { run: runOfRequests(inOrder), disturbed: [] },
    workers(1, 1),
    unloadedMs,
  )
  expect(log.tookMs).toEqual([9, 5, 7, 5])
})

test('a batch begins when it is full, or when its oldest request has waited for the delay', () => {
  const run = runOfRequests([
    [0, 20],
    [4, 20],
    [7, 31],
    [12, 31],
    [13, 31],
    [60, 80],
  ])
  const batching = { workers: 1, maxBatch: 3, maxDelayMs: 5, overheadMs: 0 }
  const { log, waited, contradicting } = extractServiceTimes(
    { run, disturbed: [] },
    batching,
    unloadedMs + batching.maxDelayMs,
  )
  expect(log.departed).toEqual([2, 3, 1])
  expect(log.tookMs).toEqual([15, 11, 15])
  expect(waited).toEqual([false, true, false])
  expect(contradicting).toBe(0)
})

test('a batch that leaves room for a request that had arrived contradicts the discipline', () => {
  const run = runOfRequests([
    [0, 10],
    [1, 20],
    [2, 30],
    [3, 40],
  ])
  const batching = { workers: 1, maxBatch: 4, maxDelayMs: 0, overheadMs: 0 }
  expect(extractServiceTimes({ run, disturbed: [] }, batching, unloadedMs).contradicting).toBe(2)
})

test('a request that overtakes as many as can be in service contradicts the discipline', () => {
  const run = runOfRequests([
    [0, 30],
    [1, 40],
    [2, 20],
  ])
  expect(extractServiceTimes({ run, disturbed: [] }, workers(2), unloadedMs).contradicting).toBe(1)
  expect(extractServiceTimes({ run, disturbed: [] }, workers(3), unloadedMs).contradicting).toBe(0)
})

test('failed and interrupted requests are left out, and services during host interference', () => {
  const run = runOfRequests([...inOrder, [50, Number.NaN], [90, 120]], { cutMs: 100 })
  const { log, requests } = extractServiceTimes(
    { run, disturbed: [[12, 13]] },
    workers(1),
    unloadedMs,
  )
  expect(log.tookMs).toEqual([10, 7, 6])
  expect(requests).toBe(5)
})
