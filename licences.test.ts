/**
 * What is delivered may be delivered: the licence of every dependency, as package-lock.json has it.
 */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Locked {
  readonly license?: string
  readonly dev?: boolean
}

/**
 * Licences that ask for no more than to be named, and that of a library which is linked and not
 * changed (libvips, below sharp).
 */
const allowed = new Set([
  ...[
    '0BSD',
    'Apache-2.0',
    'BSD-2-Clause',
    'BSD-3-Clause',
    'BlueOak-1.0.0',
    'CC0-1.0',
    'ISC',
    'MIT',
    'Python-2.0',
    'Unlicense',
    'WTFPL',
    'Zlib',
  ],
  'LGPL-3.0-or-later',
])

/** 'Apache-2.0 AND MIT': all of them; '(MIT OR WTFPL)': one. */
function mayDeliver(licence: string | undefined): boolean {
  if (licence === undefined) return false
  const words = licence.replace(/^\((.*)\)$/, '$1')
  if (words.includes(' AND ')) return words.split(' AND ').every(mayDeliver)
  return words.split(' OR ').some((one) => allowed.has(one))
}

test('every dependency that is delivered has a licence that allows it', () => {
  const { packages } = JSON.parse(
    readFileSync(new URL('./package-lock.json', import.meta.url), 'utf8'),
  ) as {
    packages: Record<string, Locked>
  }
  const delivered = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)
  expect(delivered.length).toBeGreaterThan(100)
  expect(
    delivered
      .filter(([, { license }]) => !mayDeliver(license))
      .map(([path, { license }]) => `${path}: ${license}`),
  ).toEqual([])
})

test.each<[string | undefined, boolean]>([
  ['MIT', true],
  ['(MIT OR GPL-3.0)', true],
  ['MIT AND GPL-3.0', false],
  ['AGPL-3.0', false],
  ['SEE LICENSE IN LICENSE', false],
  [undefined, false],
])('%s: %s', (licence, may) => expect(mayDeliver(licence)).toBe(may))
