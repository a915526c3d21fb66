import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findBrokenLinks, readAnchors } from './links.ts'

const root = mkdtempSync(join(tmpdir(), 'tune-links-'))
afterAll(() => rmSync(root, { recursive: true }))

test('headings have the anchors that GitHub gives them', () => {
  const page =
    '# `tune verify`, 2 %\n## [A link](b.md) & more\n## Same\n## Same\n```sh\n# no heading\n```\n'
  expect([...readAnchors(page)]).toEqual(['tune-verify-2-', 'a-link--more', 'same', 'same-1'])
})

test('links to missing files and headings are found, whatever else a page links to', () => {
  writeFileSync(
    join(root, 'a.md'),
    '# Title\n[b](b.md#there) [c](c.md) [d](#title) [e](#e) [f](https://x.y/z#w) [g](b.md#not)\n',
  )
  writeFileSync(join(root, 'b.md'), '## There\n')
  expect(findBrokenLinks(root, 'a.md')).toEqual(['a.md: c.md', 'a.md: a.md#e', 'a.md: b.md#not'])
})
