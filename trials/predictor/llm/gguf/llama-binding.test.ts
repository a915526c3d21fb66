import { afterEach, expect, test, vi } from 'vitest'
import { startLlama } from './llama-binding.ts'

afterEach(() => vi.unstubAllEnvs())

test.each([
  ['', 'false'],
  ['false', 'false'],
  ['0', 'false'],
  ['True', 'true'],
  ['1', 'true'],
  ['woodpecker', 'true'],
])("where CI is '%s' the binding is told '%s': it takes nothing but yes and no", async (ci, told) => {
  vi.stubEnv('CI', ci)
  let seen: string | undefined
  const getLlama = async () => {
    seen = process.env.CI
    return { gpu: false, dispose: async () => {} }
  }
  await startLlama({ gpu: false, threads: 1 }, async () => ({ getLlama }))
  expect(seen).toBe(told)
})
