/** `npm run docs`: writes docs/reference/ from the code. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { referencePages, referenceSchemas } from './pages.ts'

const folder = new URL('../../docs/reference/', import.meta.url)

for (const { file, render } of referencePages) {
  const page = new URL(file, folder)
  const current = existsSync(page) ? readFileSync(page, 'utf8') : ''
  writeFileSync(page, await render(current))
}
for (const [file, schema] of Object.entries(referenceSchemas))
  writeFileSync(new URL(file, folder), `${JSON.stringify(schema(), null, 2)}\n`)
