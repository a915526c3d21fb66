/**
 * Takes out of dist/ what no entry of the package reaches, so that the package holds what is needed
 * and nothing else: tools of the repository, modules that are types alone, and the declarations
 * behind functions that nobody can import. Run by `npm run build`.
 */
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const dist = join(root, 'dist')
const { bin, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const entries = [...Object.values(bin), exports['.'].default, exports['.'].types].map((path) => resolve(root, path))

/**
 * Modules that a file imports, or starts as a process or a thread by name
 * (profiler/module-entry.ts).
 */
function reachedFrom(file) {
  const text = readFileSync(file, 'utf8')
  const declares = file.endsWith('.d.ts')
  const imported = [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map(([, path]) =>
    declares ? path.replace(/\.tsx?$/, '.d.ts') : path,
  )
  const started = declares ? [] : [...text.matchAll(/(?:fork|resolveThread|resolveProcess)Entry\('(\.[^']+)'/g)].map(([, path]) => `${path}.js`)
  return [...imported, ...started].map((path) => resolve(dirname(file), path))
}

const needed = new Set()
const open = [...entries]
while (open.length > 0) {
  const file = open.pop()
  if (needed.has(file)) continue
  if (!existsSync(file)) throw new Error(`${file} is imported, and was not built`)
  needed.add(file)
  if (/\.(js|d\.ts)$/.test(file)) open.push(...reachedFrom(file))
}

/** Only modules: what else a build writes (the page, the commit) is read by name. */
const isModule = (file) => /\.(js|d\.ts|json)$/.test(file) && !file.startsWith(join(dist, 'reports/dashboard/page'))
const under = readdirSync(dist, { recursive: true, withFileTypes: true }).map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }))
for (const { entry, path } of under) if (entry.isFile() && isModule(path) && !needed.has(path)) rmSync(path)
const folders = under.filter(({ entry }) => entry.isDirectory()).map(({ path }) => path)
for (const folder of folders.sort((a, b) => b.length - a.length)) if (readdirSync(folder).length === 0) rmdirSync(folder)
