"""Addresses of the measuring side; included at the root by capacity.urls."""

from django.urls import path

from benchmarks import cell_views as cell
from benchmarks import enrol_views as enrol
from benchmarks import grid_views as grid
from benchmarks import list_views as lists
from benchmarks import live_views as live
from benchmarks import registry_views as registry

urlpatterns = [
    path("hosts/", lists.hardware_list, name="hardware-list"),
    path("hosts/new/", registry.hardware_new, name="hardware-new"),
    path("hosts/<slug:slug>/", registry.hardware_detail, name="hardware-detail"),
    path("hosts/<slug:slug>/edit/", registry.hardware_edit, name="hardware-edit"),
    path("hosts/<slug:slug>/enrol/", enrol.hardware_enrol, name="hardware-enrol"),
    path("hosts/<slug:slug>/keys/<int:pk>/revoke/", enrol.worker_key_revoke, name="worker-key-revoke"),
    path("runtimes/", lists.runtime_list, name="runtime-list"),
    path("runtimes/new/", registry.runtime_new, name="runtime-new"),
    path("runtimes/check/", registry.endpoint_check, name="endpoint-check"),
    path("runtimes/checks/<int:pk>/", registry.endpoint_check_detail, name="endpoint-check-detail"),
    path("runtimes/<slug:slug>/<int:version>/", registry.runtime_detail, name="runtime-detail"),
    path("runtimes/<slug:slug>/<int:version>/edit/", registry.runtime_edit, name="runtime-edit"),
    path("workloads/", lists.workload_list, name="workload-list"),
    path("workloads/new/", registry.workload_new, name="workload-new"),
    path("workloads/import/", registry.workload_import, name="workload-import"),
    path("workloads/<slug:slug>/<int:version>/", registry.workload_detail, name="workload-detail"),
    path("workloads/<slug:slug>/<int:version>/edit/", registry.workload_edit, name="workload-edit"),
    path("audit/", lists.audit_list, name="audit-list"),
    path("grids/<int:pk>/live/", live.grid_live, name="grid-live"),
    path("grids/<int:pk>/authorise/", grid.grid_authorize, name="grid-authorize"),
    path("grids/<int:pk>/stop/", live.grid_stop, name="grid-stop"),
    path("grids/<int:pk>/pause/", live.grid_pause, name="grid-pause"),
    path("grids/<int:pk>/resume/", live.grid_resume, name="grid-resume"),
    path("grids/<int:pk>/withdraw/", live.grid_withdraw, name="grid-withdraw"),
    path("grids/<int:pk>/conditions/<slug:phase>/", grid.grid_conditions, name="grid-conditions"),
    path("grids/<int:pk>/cells/<int:cell_id>/", cell.cell_detail, name="cell-detail"),
    path("grids/<int:pk>/cells/<int:cell_id>/evidence.parquet", grid.evidence_download, name="evidence-download"),
    path("authorisations/", lists.authorization_list, name="authorization-list"),
    path("authorisations/<int:pk>/", grid.authorization_detail, name="authorization-detail"),
    path("authorisations/<int:pk>/revoke/", grid.authorization_revoke, name="authorization-revoke"),
]
