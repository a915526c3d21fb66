import { expect, test } from 'vitest'
import { memoryStore } from './memory-store.ts'
import { storeContract } from './store.contract.ts'

storeContract('the store in memory', async () => {
  const store = memoryStore()
  return { ...store, close: async () => {} }
})

test('a closed store says so', async () => {
  const store = memoryStore()
  await store.close()
  await expect(store.list()).rejects.toMatchObject({ fault: 'closed' })
})
