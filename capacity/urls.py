"""All addresses. Views state who may come in (benchmarks.access); one that does not is refused to everybody."""

from django.urls import include, path, register_converter

from capacity import chart_views as chart
from capacity import compare_views as compare
from capacity import confirm_views as confirm
from capacity import decision_views as decision
from capacity import docs_views as docs
from capacity import file_views as files
from capacity import language
from capacity import list_views as lists
from capacity import mode_views as mode
from capacity import new_grid_views as new_grid
from capacity import objective_views as objective
from capacity import quality_views as quality
from capacity import result_views as result
from capacity import search_views as search
from capacity import site_views as site


class FileFormat:
    """The downloadable forms of a table."""

    regex = "csv|json"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class ChartFormat(FileFormat):
    """The forms of a chart: its points, as it is drawn, and as the page draws it."""

    regex = "csv|svg|json"


register_converter(FileFormat, "fmt")
register_converter(ChartFormat, "chartfmt")

urlpatterns = [
    path("", site.overview, name="overview"),
    path("search/", search.search, name="search"),
    path("login/", site.login, name="login"),
    path("logout/", site.logout, name="logout"),
    path("language/", language.set_language, name="set-language"),
    path("healthz/live", site.healthz_live, name="healthz-live"),
    path("healthz/ready", site.healthz_ready, name="healthz-ready"),
    path("docs/", docs.docs, name="docs"),
    path("docs/<slug:slug>/", docs.docs_page, name="docs-page"),
    path("objectives/", lists.objective_list, name="objective-list"),
    path("objectives/new/", objective.objective_new, name="objective-new"),
    path("objectives/<slug:slug>/<int:version>/", objective.objective_detail, name="objective-detail"),
    path("objectives/<slug:slug>/<int:version>/edit/", objective.objective_edit, name="objective-edit"),
    path("grids/", lists.grid_list, name="grid-list"),
    path("grids/new/", new_grid.grid_new, name="grid-new"),
    path("grids/<int:pk>/", result.grid_detail, name="grid-detail"),
    path("grids/<int:pk>/cells.<fmt:fmt>", files.grid_table, {"part": "cells"}, name="grid-cells"),
    path("grids/<int:pk>/batch.<fmt:fmt>", files.grid_table, {"part": "batch"}, name="grid-batch"),
    path("grids/<int:pk>/behaviour.<fmt:fmt>", files.grid_table, {"part": "behaviour"}, name="grid-behaviour"),
    path("grids/<int:pk>/rubric.<fmt:fmt>", files.grid_table, {"part": "rubric"}, name="grid-rubric"),
    path("grids/<int:pk>/policy.<fmt:fmt>", files.grid_table, {"part": "policy"}, name="grid-policy"),
    path("grids/<int:pk>/charts/<slug:chart>.<chartfmt:kind>", chart.grid_chart, name="grid-chart"),
    path("grids/<int:pk>/quality/", quality.grid_quality, name="grid-quality"),
    path("grids/<int:pk>/quality.<fmt:fmt>", quality.grid_quality_file, name="grid-quality-file"),
    path("grids/<int:pk>/checks.<fmt:fmt>", files.grid_table, {"part": "checks"}, name="grid-checks"),
    path("compare/", compare.compare, name="compare"),
    path("compare/frontiers.<chartfmt:kind>", compare.compare_chart, name="compare-chart"),
    path("compare.<fmt:fmt>", compare.compare_file, name="compare-file"),
    path("grids/<int:pk>/queue.<fmt:fmt>", files.grid_table, {"part": "queue"}, name="grid-queue"),
    path("grids/<int:pk>/confirm/", confirm.grid_confirm, name="grid-confirm"),
    path("grids/<int:pk>/propose/", decision.grid_propose, name="grid-propose"),
    path("workloads/<slug:slug>/<int:version>/modes/", mode.workload_modes, name="workload-modes"),
    path("workloads/<slug:slug>/<int:version>/modes.<fmt:fmt>", mode.workload_modes_file, name="workload-modes-file"),
    path("approvals/", lists.choice_list, name="choice-list"),
    path("approvals/<int:pk>/", decision.choice_detail, name="choice-detail"),
    path("approvals/<int:pk>/decide/", decision.choice_decide, name="choice-decide"),
    path("approvals/<int:pk>/withdraw/", decision.choice_withdraw, name="choice-withdraw"),
    path("approvals/<int:pk>/statement/", decision.statement_issue, name="statement-issue"),
    path("statements/", lists.statement_list, name="statement-list"),
    path("statements/<slug:number>/", decision.statement_detail, name="statement-detail"),
    path("statements/<slug:number>.json", decision.statement_json, name="statement-json"),
    path("statements/<slug:number>.pdf", decision.statement_pdf, name="statement-pdf"),
    path("v/", decision.verify, name="verify"),
    path("v/keyring.json", decision.keyring, name="verify-keyring"),
    path("v/<slug:number>/<slug:digest12>/", decision.verify_statement, name="verify-statement"),
    path("", include("benchmarks.urls")),
]

handler403 = site.forbidden
handler404 = site.not_found
handler500 = site.server_error
