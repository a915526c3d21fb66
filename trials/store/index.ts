export { StoreError, type StoreFault } from './errors.ts'
export { memoryStore } from './memory.ts'
export { openReader, type StoreReader } from './reader.ts'
export { openStore, type StoreOptions } from './sqlite.ts'
