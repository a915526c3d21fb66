import { expect, test } from 'vitest'
import { Turns } from './turns.ts'

const never = new AbortController().signal

test('one that gives its turn up lets another start, and has one again when that ends', async () => {
  const turns = new Turns(1)
  turns.start(1)
  expect(turns.free).toBe(false)
  const { freed } = turns
  expect(turns.giveUp(1)).toBe(true)
  await freed
  expect(turns.free).toBe(true)
  turns.start(2)
  let again = false
  const turn = turns.take(1, never).then(() => {
    again = true
  })
  await Promise.resolve()
  expect(again).toBe(false)
  turns.end(2)
  await turn
  // It holds the turn: nobody else starts.
  expect(turns.free).toBe(false)
  turns.end(1)
  expect(turns.free).toBe(true)
})

test('whoever waits for his turn comes before a new one, in order', async () => {
  const turns = new Turns(1)
  const order: number[] = []
  for (const number of [1, 2]) {
    turns.start(number)
    turns.giveUp(number)
  }
  turns.start(3)
  const back = [1, 2].map((number) => turns.take(number, never).then(() => order.push(number)))
  turns.end(3)
  expect(turns.free).toBe(false)
  await back[0]
  expect(order).toEqual([1])
  turns.end(1)
  await back[1]
  expect(order).toEqual([1, 2])
})

test('at most two wait beside what runs one at a time; a place that is left goes to the next', () => {
  const turns = new Turns(1)
  const gaveUp = [1, 2, 3].map((number) => {
    turns.start(number)
    return turns.giveUp(number)
  })
  expect(gaveUp).toEqual([true, true, false])
  turns.end(1)
  expect(turns.giveUp(3)).toBe(true)
  expect(turns.giveUp(3)).toBe(false)
})

test('one that never gave its turn up has it; one that is ended while it waits is thrown its reason', async () => {
  const turns = new Turns(1)
  turns.start(1)
  await turns.take(1, never)
  turns.giveUp(1)
  turns.start(2)
  const ended = new AbortController()
  const waiting = turns.take(1, ended.signal)
  ended.abort(new Error('interrupted'))
  await expect(waiting).rejects.toThrow('interrupted')
  turns.end(1)
  turns.end(2)
  expect(turns.free).toBe(true)
})
