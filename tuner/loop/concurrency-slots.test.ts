import { expect, test } from 'vitest'
import { ConcurrencySlots } from './concurrency-slots.ts'

const never = new AbortController().signal

test('a suspended trial frees its slot, and gets one again when another trial ends', async () => {
  const slots = new ConcurrencySlots(1)
  slots.occupy(1)
  expect(slots.hasFree).toBe(false)
  const { suspension } = slots
  expect(slots.suspend(1)).toBe(true)
  await suspension
  expect(slots.hasFree).toBe(true)
  slots.occupy(2)
  let resumed = false
  const resuming = slots.resume(1, never).then(() => {
    resumed = true
  })
  await Promise.resolve()
  expect(resumed).toBe(false)
  slots.release(2)
  await resuming
  expect(slots.hasFree).toBe(false)
  slots.release(1)
  expect(slots.hasFree).toBe(true)
})

test('suspended trials get a slot before new ones, in the order in which they became ready', async () => {
  const slots = new ConcurrencySlots(1)
  const order: number[] = []
  for (const number of [1, 2]) {
    slots.occupy(number)
    slots.suspend(number)
  }
  slots.occupy(3)
  const resuming = [1, 2].map((number) =>
    slots.resume(number, never).then(() => order.push(number)),
  )
  slots.release(3)
  expect(slots.hasFree).toBe(false)
  await resuming[0]
  expect(order).toEqual([1])
  slots.release(1)
  await resuming[1]
  expect(order).toEqual([1, 2])
})

test('at most two trials are suspended where one runs at a time', () => {
  const slots = new ConcurrencySlots(1)
  const suspended = [1, 2, 3].map((number) => {
    slots.occupy(number)
    return slots.suspend(number)
  })
  expect(suspended).toEqual([true, true, false])
  slots.release(1)
  expect(slots.suspend(3)).toBe(true)
  expect(slots.suspend(3)).toBe(false)
})

test('a trial that was never suspended keeps its slot; an aborted wait throws the reason', async () => {
  const slots = new ConcurrencySlots(1)
  slots.occupy(1)
  await slots.resume(1, never)
  slots.suspend(1)
  slots.occupy(2)
  const controller = new AbortController()
  const resuming = slots.resume(1, controller.signal)
  controller.abort(new Error('interrupted'))
  await expect(resuming).rejects.toThrow('interrupted')
  slots.release(1)
  slots.release(2)
  expect(slots.hasFree).toBe(true)
})
