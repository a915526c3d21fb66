import { expect, test } from 'vitest'
import { spec } from './run.ts'

test.each([
  { modelUri: 's3://key:planted@bucket/model' },
  { modelUri: 'https://host/model?X-Amz-Signature=planted0123456789' },
  { image: 'https://user:planted@registry.internal/image' },
])('a secret in %o is refused before anything is read, and not repeated', async (flags) => {
  const refused = spec(undefined, { db: 'none.db', target: 'kubernetes', ...flags })
  await expect(refused).rejects.toThrow(/^--(model-uri|image) holds a secret: .*\[secret\]/)
  await expect(refused).rejects.not.toThrow('planted')
})
