import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { findOwnerState, getThisProcess, readStart } from './owner.ts'

test('this process, a live one, and one that has ended are told apart', async () => {
  expect(findOwnerState(getThisProcess())).toBe('this-process')
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await once(child, 'spawn')
  const owner = { pid: child.pid!, startedAt: readStart(child.pid!)!, host: hostname() }
  expect(findOwnerState(owner)).toBe('alive')
  child.kill('SIGKILL')
  await once(child, 'close')
  expect(findOwnerState(owner)).toBe('dead')
})

test('a later process with the same number is another one', () => {
  expect(findOwnerState({ ...getThisProcess(), startedAt: 'an earlier boot/1' })).toBe('dead')
})

test('a process of another host cannot be asked', () => {
  expect(findOwnerState({ ...getThisProcess(), host: 'elsewhere' })).toBe('unknown')
})
