/**
 * Vitest's global set-up: brings dist/ up to date with the sources, so that tests start the
 * product's commands in the form in which it ships.
 */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const sources = ['tuner', 'profiler', 'search', 'reports', 'trials']
const dist = join(root, 'dist')
/** What a build writes last. */
const last = join(dist, 'reports/dashboard/page/app.js')

const filesUnder = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const isTest = (file: string) => /\.(test\.tsx?|contract\.ts|bench\.ts|k8s-test\.ts)$/.test(file)

/**
 * Builds only what is older than its sources. Files are replaced one by one and whole: what runs
 * from dist/ meanwhile goes on.
 */
export default function build(): void {
  const newestMs = Math.max(
    ...sources
      .flatMap((folder) => filesUnder(join(root, folder)))
      .filter((file) => !isTest(file))
      .map((file) => statSync(file).mtimeMs),
  )
  if (existsSync(last) && statSync(last).mtimeMs > newestMs) return
  const started = new Date()
  mkdirSync(dist, { recursive: true })
  const next = mkdtempSync(join(dist, '.next-'))
  try {
    // Types are checked by `npm run types`.
    execFileSync(
      join(root, 'node_modules/.bin/tsc'),
      ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', next],
      { cwd: root },
    )
    for (const file of filesUnder(next)) {
      const to = join(dist, relative(next, file))
      mkdirSync(dirname(to), { recursive: true })
      renameSync(file, to)
    }
  } finally {
    rmSync(next, { recursive: true, force: true })
  }
  execFileSync(process.execPath, ['dist/reports/dashboard/bundle.js'], { cwd: root })
  utimesSync(last, started, started)
}
