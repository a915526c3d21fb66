import { Option } from 'commander'
import { defaults } from '../config/names.ts'

/**
 * `--db` of the commands that read a store, by TUNE_DB where it is not given: runs, which write it,
 * take it from there too.
 */
export const storeOption = (what = 'trial store (SQLite)'): Option =>
  new Option('--db <file>', what).default(process.env.TUNE_DB || defaults.db)
