import { expect, test } from 'vitest'
import { createMemoryStore } from './memory-store.ts'
import { storeContract } from './store.contract.ts'

storeContract('the store in memory', async () => {
  const store = createMemoryStore()
  return { ...store, close: async () => {} }
})

test('a closed store says so', async () => {
  const store = createMemoryStore()
  await store.close()
  await expect(store.list()).rejects.toMatchObject({ fault: 'closed' })
})
