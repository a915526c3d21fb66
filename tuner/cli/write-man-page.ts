/** Writes dist/tune.1, the manual page that the package installs. Run by `npm run build`. */
import { writeFileSync } from 'node:fs'
import { readProgramVersion } from './program-version.ts'
import { renderManPage } from './render/man-page.ts'
import { createProgram, exitCodesText, loadCommands } from './tune-program.ts'

const [version] = readProgramVersion().split(' ') as [string]
writeFileSync(
  new URL('../../tune.1', import.meta.url),
  renderManPage(createProgram(await loadCommands()), { version, exitStatus: exitCodesText }),
)
