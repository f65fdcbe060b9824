#!/usr/bin/env node
import '../scripts/handoff.js';
