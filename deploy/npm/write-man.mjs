/** Writes dist/tune.1, the manual page that the package installs. Run by `npm run build`. */
import { writeFileSync } from 'node:fs'

const from = (path) => import(new URL(`../../dist/tuner/${path}`, import.meta.url))
const [{ commandLine, exitStatus }, { manPage }, { programVersion }] = await Promise.all(
  ['tune-program.js', 'render/man-page.js', 'program-version.js'].map(from),
)
const [version] = programVersion().split(' ')
writeFileSync(new URL('../../dist/tune.1', import.meta.url), manPage(commandLine(), { version, exitStatus }))
