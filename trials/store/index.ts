export { memoryStore } from './memory-store.ts'
export { openReader, type StoreReader } from './reader.ts'
export { openStore, type StoreOptions } from './sqlite-store.ts'
export { StoreError, type StoreFault } from './store-error.ts'
