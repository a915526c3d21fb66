import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parseReplayTask } from './imports/replay-task-schema.ts'

const doc = (name: string) =>
  readFileSync(join(dirname(fileURLToPath(import.meta.url)), '..', 'docs', name), 'utf8')

test('the task of a recorded table is shown by an example that parses', () => {
  const page = 'how-to/import-results.md'
  const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(doc(page))!
  expect(parseReplayTask({ file: page, text: yaml! }).parameters).toHaveLength(2)
})

test('figures that were measured stand beside the command that prints them', () => {
  const root = join(dirname(fileURLToPath(import.meta.url)), '..')
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: object
  }
  const commands = readdirSync(join(root, 'tuner', 'cli', 'commands'))
  // 12.5, .88, 1,049 ms, 7 %, 3x: not the bare numbers of a key or a code.
  const figure =
    /^[<>≤≥~±−+-]? ?\$?(\d[\d,]*\.\d+|\.\d+|[\d,.]+ ?(%|ms|s|µs|req\/s|rps|MiB|x))( .*)?$/
  const inProse = /\d[\d,]*\.\d|(^|\s)\.\d|\d ?(%|ms|s|µs|req\/s|rps|MiB|x|times)\b/
  const bare = [
    'README.md',
    ...['tutorials', 'how-to', 'explanation', 'research'].flatMap((folder) =>
      readdirSync(join(root, 'docs', folder))
        .filter((f) => f.endsWith('.md'))
        .map((f) => join(folder, f)),
    ),
  ].flatMap((page) =>
    (page === 'README.md' ? readFileSync(join(root, page), 'utf8') : doc(page))
      .split(/^(?=##+ )/m)
      .filter((section) => {
        const rows = section.split('\n').filter((line) => line.startsWith('|'))
        const cells = rows
          .flatMap((row) => row.split('|').slice(2, -1))
          .map((cell) => cell.replaceAll(/[*`]/g, '').trim())
        const named = [
          ...section.matchAll(
            /npm run (?:-s )?([\w:-]+)|node --import tsx ([\w/.-]+\.bench\.ts)|`?tune ([a-z]+)/g,
          ),
        ]
        const printed = named.some(([, script, bench, command]) =>
          script
            ? script in scripts
            : bench
              ? existsSync(join(root, bench))
              : commands.includes(command!),
        )
        const sentences = section.replaceAll(/```[\s\S]*?```|^\|.*$/gm, '').split(/(?<=[.:;])\s/)
        const told = sentences.some(
          (sentence) =>
            /\b(median|p90|on average|seeds)\b/.test(sentence) && inProse.test(sentence),
        )
        const hasCommand = printed || section.includes('```bash')
        return (
          (told || cells.filter((cell) => figure.test(cell)).length >= fewFigures) && !hasCommand
        )
      })
      .map((section) => `${page}: ${section.split('\n')[0]}`),
  )
  expect(bare).toEqual([])
})

/** So many in one section are a measurement, fewer an example. */
const fewFigures = 4

test('the fleet files that are shown are those that the page reads', () => {
  const page = doc('how-to/several-models.md')
  const shown = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, yaml]) => yaml)
  for (const name of ['fleet.yaml', 'shared.yaml'])
    expect(shown).toContain(doc(join('files', name)))
})
