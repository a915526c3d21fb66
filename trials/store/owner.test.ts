import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { ownerState, startOf, thisProcess } from './owner.ts'

test('this process, a live one, and one that has ended are told apart', async () => {
  expect(ownerState(thisProcess())).toBe('this-process')
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await once(child, 'spawn')
  const owner = { pid: child.pid!, startedAt: startOf(child.pid!)!, host: hostname() }
  expect(ownerState(owner)).toBe('alive')
  child.kill('SIGKILL')
  await once(child, 'close')
  expect(ownerState(owner)).toBe('dead')
})

test('a later process with the same number is another one', () => {
  expect(ownerState({ ...thisProcess(), startedAt: 'an earlier boot/1' })).toBe('dead')
})

test('a process of another host cannot be asked', () => {
  expect(ownerState({ ...thisProcess(), host: 'elsewhere' })).toBe('unknown')
})
